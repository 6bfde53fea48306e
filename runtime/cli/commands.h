/* One function a command; the table that names them is in main.c. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options/args.h"

gnf_status command_info(const struct args *args, int *exit_status);
gnf_status command_kernels(const struct args *args, int *exit_status);
gnf_status command_run(const struct args *args, int *exit_status);
gnf_status command_check(const struct args *args, int *exit_status);
gnf_status command_compile(const struct args *args, int *exit_status);
gnf_status command_cache(const struct args *args, int *exit_status);
/* in tuning/ */
gnf_status command_tune(const struct args *args, int *exit_status);
gnf_status command_db(const struct args *args, int *exit_status);
gnf_status command_bench(const struct args *args, int *exit_status);
gnf_status command_compare(const struct args *args, int *exit_status);
gnf_status command_worker(const struct args *args, int *exit_status);

#endif
