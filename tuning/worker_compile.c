/* `gnfuse worker compile`: the child of compiling.c. A request
 * {"problem":TEXT,"variant":NAME,"capability":90} fills the cache with what plans look for;
 * {"ok":true,"ms":T}, 0 where it was there. {"alive":true} before each kernel: the limit is a kernel's. */
#include "worker.h"

#include "../runtime/cli/session.h"
#include "../runtime/image.h"
#include "../runtime/monotonic.h"
#include <stdlib.h>

struct compile {
    struct worker *worker;
    struct args args; /* of the session */
    struct session session;
    bool open;
    struct gnf_compiler *compiler;
    struct gnf_cache *cache;
    char *target_request;
    struct gnf_problem problem;
    int capability;
    double ms;
};

/* Packs, cache and compiler: no driver. */
static gnf_status open_session(struct compile *c)
{
    if (c->open)
        return GNF_OK;
    GNF_TRY(session_open_packs(&c->session, &c->args));
    c->open = true;
    const struct gnf_options *options = &c->session.options;
    GNF_TRY(gnf_compiler_create(&c->compiler, options->nvrtc));
    GNF_TRY(gnf_target_request(options->nvrtc, &c->target_request));
    return gnf_cache_create(&c->cache, options->cache_dir, options->cache_limit, &options->log);
}

static gnf_status find_target(struct compile *c, const struct gnf_kernel *kernel, int outdated,
                              struct gnf_target *target)
{
    bool jit = c->session.options.jit;
    gnf_status status =
        gnf_target_find(target, c->cache, c->compiler, c->target_request, c->capability, jit, outdated);
    if (status == GNF_NOT_COMPILED)
        return gnf_fail(status, "not compiled for capability %d: no cache holds it and GNFUSE_JIT is off",
                        c->capability);
    return status == GNF_OK && kernel->exact ? gnf_compiler_exact_target(target->name, kernel->entry)
                                             : status;
}

static gnf_status fetch(struct compile *c, struct gnf_image_job *job)
{
    char *key;
    void *image = NULL;
    size_t size;
    double start = 1e3 * gnf_now();
    GNF_TRY(gnf_image_key(job->target, job->source, &key));
    gnf_status status = gnf_image_fetch(job, key, &image, &size);
    free(key);
    free(image);
    if (job->built)
        c->ms += 1e3 * gnf_now() - start;
    return status;
}

static gnf_status compile_kernel(struct compile *c, const struct pack_variant *one, int number)
{
    const struct gnf_kernel *kernel = &one->variant->kernel[number];
    struct gnf_target target;
    struct gnf_image_job job = {
        .cache = c->cache,
        .compiler = c->compiler,
        .log = &c->session.options.log,
        .entry = kernel->entry,
        .target = &target,
        .jit = c->session.options.jit,
        .number = number + 1,
        .total = one->variant->kernel_count,
    };
    char *source = NULL;
    GNF_TRY(find_target(c, kernel, 0, &target));
    GNF_TRY(gnf_pack_source(one->file->pack, kernel, &source));
    job.source = source;
    gnf_status status = fetch(c, &job);
    if (job.outdated) {
        status = find_target(c, kernel, target.nvrtc, &target);
        if (status == GNF_OK)
            status = fetch(c, &job);
    }
    free(source);
    return status;
}

static gnf_status compile(struct compile *c, const json_t *request)
{
    const char *text = json_string_value(json_object_get(request, "problem"));
    const char *variant = json_string_value(json_object_get(request, "variant"));
    struct pack_variant *list = NULL;
    int count;
    c->ms = 0;
    c->capability = (int)json_integer_value(json_object_get(request, "capability"));
    GNF_TRY(gnf_problem_parse(text != NULL ? text : "", &c->problem));
    c->args.operand = c->problem.text;
    GNF_TRY(open_session(c));
    GNF_TRY(packs_require(&c->session.packs, &c->args, &c->session.options, &c->problem));
    GNF_TRY(packs_variants(&c->session.packs, &c->problem, variant != NULL ? variant : "", &list, &count));
    gnf_status status = GNF_OK;
    for (int i = 0; i < list[0].variant->kernel_count && status == GNF_OK; i++) {
        worker_at(c->worker, i);
        status = compile_kernel(c, &list[0], i);
    }
    free(list);
    return status;
}

gnf_status worker_compile(struct worker *worker, const struct args *args)
{
    struct compile c = {.worker = worker, .args = *args};
    json_t *request;
    while ((request = worker_read(worker)) != NULL) {
        gnf_status status = compile(&c, request);
        worker_send(worker,
                    status == GNF_OK ? json_pack("{s:b, s:f}", "ok", 1, "ms", c.ms) : worker_failure(status));
        json_decref(request);
    }
    gnf_cache_destroy(c.cache);
    gnf_compiler_destroy(c.compiler);
    free(c.target_request);
    if (c.open)
        session_close(&c.session);
    return GNF_OK;
}
