#include "session.h"

#include "simulate.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool starts(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* The library's log goes to standard error. Compiles are counted, as plan_us needs to know of them; on a
 * terminal they are one live line. */
static void session_log(void *user, gnf_log_level level, const char *line)
{
    struct session *session = user;
    bool compiling = starts(line, "compiling "), compiled = starts(line, "compiled ");
    session->compiles += compiling;
    const char *kind = level == GNF_LOG_ERROR ? "error: " : level == GNF_LOG_WARNING ? "warning: " : "";
    bool live = !session->args->verbose && isatty(STDERR_FILENO);
    if (live)
        fputs("\r\033[K", stderr);
    if (live && compiling)
        fputs(line, stderr);
    else if (session->args->verbose || !compiled)
        fprintf(stderr, "gnfuse: %s%s\n", kind, line);
}

static void fill_options(struct session *session, gnf_context_options *options)
{
    const struct args *args = session->args;
    *options = (gnf_context_options){
        .size = sizeof *options,
        .device = args->device,
        .cache_dir = args->cache_dir,
        .db = args->db,
        .log = session_log,
        .log_user = session,
        .log_level = args->quiet     ? GNF_LOG_WARNING
                     : args->verbose ? GNF_LOG_DEBUG
                                     : GNF_LOG_INFO,
    };
}

gnf_status session_open_packs(struct session *session, const struct args *args)
{
    memset(session, 0, sizeof *session);
    session->args = args;
    gnf_context_options options;
    fill_options(session, &options);
    GNF_TRY(gnf_options_resolve(&options, &session->options));
    gnf_status status = packs_open(&session->packs, args, &session->options);
    if (status != GNF_OK)
        gnf_options_free(&session->options);
    return status;
}

static gnf_status give_packs(struct session *session)
{
    for (; session->given < session->packs.count; session->given++) {
        const struct pack_file *file = &session->packs.at[session->given];
        if (file->added)
            GNF_TRY(gnf_context_load_pack(session->context, file->path));
    }
    return GNF_OK;
}

gnf_status session_require(struct session *session, const struct gnf_problem *problem)
{
    GNF_TRY(packs_require(&session->packs, session->args, &session->options, problem));
    return give_packs(session);
}

static gnf_status open_device(struct session *session, const struct gnf_problem *problem)
{
    const struct args *args = session->args;
    gnf_context_options options;
    char driver[FILES_PATH_SIZE];
    fill_options(session, &options);
    if (args->sim) {
        GNF_TRY(simulate_find(driver));
        options.driver = driver;
    }
    /* A GPU is opened first: without one, nothing need be generated. The simulator reads the names of its
     * kernels when it is opened, so they come first. */
    session->simulated = args->sim || simulate_is(session->options.driver);
    if (session->simulated && problem != NULL) {
        GNF_TRY(packs_require(&session->packs, args, &session->options, problem));
        GNF_TRY(simulate_prepare(&session->packs, args, &session->options, problem));
    }
    gnf_status status = gnf_context_create(&session->context, &options);
    if (!session->simulated && (status == GNF_NO_DRIVER || status == GNF_NO_DEVICE)) {
        char reason[512];
        snprintf(reason, sizeof reason, "%s", gnf_error_message());
        return gnf_fail(status, "%s; without a GPU: --device sim", reason);
    }
    GNF_TRY(status);
    const struct gnf_driver *cuda = &session->context->driver;
    session->simulated |= cuda->simulated;
    if (session->simulated)
        snprintf(session->device, sizeof session->device, "sim");
    else
        snprintf(session->device, sizeof session->device, "%d", session->context->device.ordinal);
    GNF_TRY(GNF_CU(cuda, cuCtxSetCurrent, (session->context->cuda)));
    if (!session->simulated && problem != NULL)
        GNF_TRY(packs_require(&session->packs, args, &session->options, problem));
    GNF_TRY(give_packs(session));
    return GNF_CU(cuda, cuStreamCreate, (&session->stream, CU_STREAM_DEFAULT));
}

gnf_status session_open(struct session *session, const struct args *args, const struct gnf_problem *problem)
{
    GNF_TRY(session_open_packs(session, args));
    gnf_status status = open_device(session, problem);
    if (status != GNF_OK)
        session_close(session);
    return status;
}

void session_close(struct session *session)
{
    if (session->stream != NULL)
        session->context->driver.cuStreamDestroy(session->stream);
    session->stream = NULL;
    if (session->context !=
        NULL) /* what is destroyed must not stay current: the next session would take it */
        session->context->driver.cuCtxSetCurrent(NULL);
    gnf_context_destroy(&session->context);
    packs_close(&session->packs);
    gnf_options_free(&session->options);
}

gnf_status session_wait(struct session *session)
{
    return GNF_CU(&session->context->driver, cuStreamSynchronize, (session->stream));
}
