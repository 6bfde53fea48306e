#include "../runtime/cli/commands.h"
#include "worker.h"
#include <string.h>

gnf_status command_worker(const struct args *args, int *exit_status)
{
    struct worker *worker;
    (void)exit_status;
    bool measure = strcmp(args->operand, "measure") == 0;
    if (!measure && strcmp(args->operand, "compile") != 0)
        return gnf_fail(GNF_INVALID_ARGUMENT, "'%s' is not a worker (allowed: measure, compile)",
                        args->operand);
    GNF_TRY(worker_create(&worker));
    return measure ? worker_measure(worker, args) : worker_compile(worker, args);
}
