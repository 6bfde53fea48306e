/* What a cubin says about its kernel: a cubin is an ELF file whose .nv.info section lists attributes of
 * functions. */
#ifndef CLI_ELF_H
#define CLI_ELF_H

#include "../status.h"

struct elf_resources {
    int registers;   /* a thread */
    int stack_bytes; /* a thread: what did not fit in registers; 0 for a kernel that does not spill */
};

/* `entry` as in the source. GNF_INVALID_ARGUMENT where the image is no cubin or lacks the entry. */
gnf_status elf_read_resources(const void *image, size_t size, const char *entry,
                              struct elf_resources *resources);

#endif
