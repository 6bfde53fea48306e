/* Status values and the message of the last failure on this thread. */
#ifndef GNF_STATUS_H
#define GNF_STATUS_H

#include "gnfuse/gnfuse.h"

/* Stores the message for gnf_error_message() and returns `status`. */
gnf_status gnf_fail(gnf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends to the message stored last, for a caller that can say more ("while loading pack F: ..."). */
gnf_status gnf_fail_more(gnf_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define GNF_TRY(call)                                                                                        \
    do {                                                                                                     \
        gnf_status gnf_try_status = (call);                                                                  \
        if (gnf_try_status != GNF_OK)                                                                        \
            return gnf_try_status;                                                                           \
    } while (0)

#endif
