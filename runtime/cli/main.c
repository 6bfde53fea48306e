#include "commands.h"
#include "interrupt.h"
#include "output.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

const struct command commands[] = {
    {"info", COMMAND_INFO, NULL, "device, driver, libraries, cache, packs, records: what was found and where",
     command_info},
    {"kernels", COMMAND_KERNELS, "[PROBLEM]", "problems and variants known; one problem's variants",
     command_kernels},
    {"run", COMMAND_RUN, "PROBLEM", "run on random data or on files, time it on a GPU", command_run},
    {"check", COMMAND_CHECK, "PROBLEM", "every variant against the float64 reference", command_check},
    {"compile", COMMAND_COMPILE, "PROBLEM", "cubins without a GPU: registers, spills, shared memory",
     command_compile},
    {"tune", COMMAND_TUNE, "[PROBLEM...]", "measure the variants, so that plans take the best one",
     command_tune},
    {"db", COMMAND_DB, "[show|explain PROBLEM|merge A B...|export]",
     "the tuning database: list it, explain a plan's choice, join files, pass it on", command_db},
    {"bench", COMMAND_BENCH, "PROBLEM...", "time, bytes, share of the copy bandwidth of the same run",
     command_bench},
    {"compare", COMMAND_COMPARE, "PROBLEM", "every variant side by side: table, JSON or a page with a plot",
     command_compare},
    {"worker", COMMAND_WORKER, "measure|compile", NULL, command_worker},
    {"cache", COMMAND_CACHE, "[stats|verify|clear]", "the folder of compiled kernels and generated packs",
     command_cache},
    {0},
};

enum { EXIT_DONE = 0, EXIT_CHECK_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_DEVICE = 3, EXIT_DRIVER = 4 };

static int exit_status_of(gnf_status status)
{
    switch (status) {
    case GNF_OK:
        return EXIT_DONE;
    case GNF_INVALID_ARGUMENT:
    case GNF_INVALID_PROBLEM:
    case GNF_NOT_SUPPORTED:
    case GNF_TOO_LARGE:
    case GNF_BAD_PACK:
    case GNF_IO:
        return EXIT_USAGE;
    case GNF_NO_DRIVER:
    case GNF_NO_DEVICE:
    case GNF_NO_COMPILER:
    case GNF_NOT_COMPILED:
    case GNF_NO_KERNEL:
    case GNF_NO_CUBLAS:
        return EXIT_NO_DEVICE;
    default:
        return EXIT_DRIVER;
    }
}

static int fail(const struct args *args, gnf_status status)
{
    const char *message = gnf_error_message();
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr); /* over a live line */
    if (args->command != NULL)
        fprintf(stderr, "gnfuse: %s: %s\n", args->command->name, message);
    else
        fprintf(stderr, "gnfuse: %s\n", message);
    if (args->json) /* whoever reads the JSON gets an object in every case */
        output_json(
            json_pack("{s:b, s:s, s:s}", "ok", 0, "status", gnf_status_name(status), "error", message));
    return exit_status_of(status);
}

/* A file that is opened must not take the place of a stream that this program was started without, or what is
 * printed would land in it. What stands there now fails when it is used. */
static void fill_missing_streams(void)
{
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0)
            open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    fill_missing_streams();
    /* A reader that went away (`gnfuse kernels | head`) is a write error with a message, not a silent death.
     */
    signal(SIGPIPE, SIG_IGN);
    interrupt_start();
    struct args args;
    gnf_status status = args_parse(argc, argv, &args);
    if (status != GNF_OK)
        return fail(&args, status);
    if (args.version) {
        printf("gnfuse %d.%d.%d\n", GNF_VERSION_MAJOR, GNF_VERSION_MINOR, GNF_VERSION_PATCH);
        status = output_flush();
    } else if (args.help) {
        args_help(stdout, args.command);
        status = output_flush();
    } else {
        int exit_status = EXIT_DONE;
        status = args.command->run(&args, &exit_status);
        if (status == GNF_OK)
            status = output_flush();
        if (status == GNF_OK)
            return exit_status;
    }
    return status == GNF_OK ? EXIT_DONE : fail(&args, status);
}
