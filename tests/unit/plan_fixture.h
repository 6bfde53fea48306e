/* A context on the fake driver with a pack of its own. Kernels are compiled by the machine's NVRTC; where
 * there is none, the tests that need one are skipped. */
#ifndef GNF_PLAN_FIXTURE_H
#define GNF_PLAN_FIXTURE_H

#include "fake_driver.h"
#include "make_pack.h"
#include "plan.h"
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

/* clang-format off */
#define KERNEL(name, part, block, shared, unit, units_per_block, span, tile, cap) \
    "{\"entry\":\"" name "\",\"parts\":[" part "],\"block\":" #block ",\"shared\":" #shared ",\"unit\":\"" unit \
    "\",\"units_per_block\":" #units_per_block ",\"span\":\"" span "\",\"tile\":" #tile ",\"cap\":" #cap "}"
#define VARIANT(name, alignment, capability, workspace, group_max, kernels) \
    "{\"name\":\"" name "\",\"strategy\":\"s\",\"parameters\":{},\"alignment\":" #alignment \
    ",\"capability\":" #capability ",\"workspace\":" #workspace ",\"group_max\":" #group_max \
    ",\"kernels\":[" kernels "]}"
#define ENTRY(key, generic, variants) "{\"key\":\"" key "\",\"generic\":" generic ",\"variants\":[" variants "]}"
#define MANIFEST(entries) \
    "{\"format\":1,\"generator\":\"t\",\"parts\":[[0,36],[36,36],[72,13]],\"entries\":[" entries "]}"

static const char parts[] =
    "extern \"C\" __global__ void k_a() {}\n"
    "extern \"C\" __global__ void k_b() {}\n"
    "not C at all\n";
static const char text[] = "f32[1000,64,10,10] | groupnorm(8) | relu";

static const char manifest[] = MANIFEST(
    ENTRY("f32[*,64,100] | groupnorm(8) | relu", "false",
        VARIANT("four.v4", 16, 80, 0, 0, KERNEL("k_a", "0", 256, 65536, "group", 4, "none", 1, 1)) ","
        VARIANT("one.v1", 4, 70, 0, 0, KERNEL("k_b", "1", 64, 0, "group", 1, "none", 1, 1)) ","
        VARIANT("split.v4", 16, 70, 12, 0,
            KERNEL("k_a", "0", 128, 0, "group", 1, "group", 300, 8) ","
            KERNEL("k_b", "1", 32, 16, "sample", 1, "spatial", 7, 5)) ","
        VARIANT("newer", 4, 120, 0, 0, KERNEL("k_a", "0", 32, 0, "group", 1, "none", 1, 1)) ","
        VARIANT("large", 4, 70, 0, 0, KERNEL("k_a", "0", 32, 262144, "group", 1, "none", 1, 1)) ","
        VARIANT("small", 4, 70, 0, 799, KERNEL("k_a", "0", 32, 0, "group", 1, "none", 1, 1))) ","
    ENTRY("f32 | groupnorm | relu", "true",
        VARIANT("generic", 4, 70, 0, 0, KERNEL("k_a", "0", 32, 0, "group", 1, "none", 1, 1))) ","
    ENTRY("f32 | groupnorm | tanh", "true",
        VARIANT("broken", 4, 70, 0, 0, KERNEL("k_c", "2", 32, 0, "group", 1, "none", 1, 1))) ","
    ENTRY("f16 | groupnorm | add($0:full) | mul($1:channel) | clamp | add($2:scalar)", "true",
        VARIANT("g2", 2, 70, 8, 0, KERNEL("k_a", "0", 32, 0, "sample", 1, "group", 10, 100))) ","
    ENTRY("f32 | groupnorm | sum", "true",
        VARIANT("g4", 4, 70, 0, 0, KERNEL("k_a", "0", 32, 0, "group", 1, "none", 1, 1))));
/* clang-format on */

static const CUcontext our_context = (CUcontext)0x1000, other_context = (CUcontext)0x2000;
static const CUstream stream = (CUstream)0x30;
static const char *cublaslt = "/nonexistent/libcublasLt.so"; /* path for contexts opened from now on */
static char folder[] = "/tmp/gnf_test_XXXXXX";
static atomic_int compiles, warnings;

static inline void count_lines(void *user, gnf_log_level level, const char *line)
{
    (void)user;
    compiles += strncmp(line, "compiling ", 10) == 0;
    warnings += level == GNF_LOG_WARNING;
}

static inline void load_manifest(gnf_context *context, const char *content)
{
    size_t size;
    unsigned char *pack = make_pack(content, strlen(content), parts, &size);
    if (gnf_context_load_pack_memory(context, pack, size) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    free(pack);
}

/* A context on the fake driver, with the pack above. */
static inline gnf_context *open_context(const char *nvrtc, bool jit)
{
    gnf_context *context = calloc(1, sizeof *context);
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_init(&context->target_lock, NULL);
    pthread_mutex_init(&context->reload_lock, NULL);
    pthread_mutex_init(&context->tuned_lock, NULL);
    pthread_mutex_init(&context->tune_lock, NULL);
    pthread_cond_init(&context->changed, NULL);
    fake_open(&context->driver);
    fake_current = NULL;
    compiles = warnings = 0;
    context->cuda = our_context;
    context->device =
        (struct gnf_device){.name = "fake", .capability = 90, .multiprocessors = 132, .shared_block = 232448};
    context->options.jit = jit;
    context->options.log = (struct gnf_log){count_lines, NULL, GNF_LOG_INFO};
    assert_int_equal(gnf_compiler_create(&context->compiler, nvrtc), GNF_OK);
    assert_int_equal(gnf_cublaslt_create(&context->cublaslt, cublaslt, NULL), GNF_OK);
    assert_int_equal(gnf_target_request(nvrtc, &context->target_request), GNF_OK);
    assert_int_equal(gnf_cache_create(&context->cache, folder, 1 << 30, &context->options.log), GNF_OK);
    load_manifest(context, manifest);
    return context;
}

static inline int remove_file(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type;
    return walk->level ? remove(path) : 0;
}

static inline void clear_cache(void)
{
    nftw(folder, remove_file, 8, FTW_DEPTH | FTW_PHYS);
}

static inline bool have_nvrtc(gnf_context *context)
{
    int version;
    return gnf_compiler_version(context->compiler, &version, NULL) == GNF_OK;
}

#define OPEN_OR_SKIP(context)                                                                                \
    clear_cache();                                                                                           \
    gnf_context *context = open_context(NULL, true);                                                         \
    if (!have_nvrtc(context)) {                                                                              \
        gnf_context_destroy(&context);                                                                       \
        skip();                                                                                              \
    }

static inline void expect(gnf_status got, gnf_status wanted, const char *words)
{
    if (got != wanted || (words && !strstr(gnf_error_message(), words)))
        fail_msg("got %s, wanted %s with \"%s\": %s", gnf_status_name(got), gnf_status_name(wanted),
                 words ? words : "", gnf_error_message());
}

static inline gnf_plan *plan_for(gnf_context *context, const char *problem, const gnf_plan_options *options)
{
    gnf_plan *plan;
    if (gnf_plan_create(&plan, context, problem, options) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    return plan;
}

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    clear_cache();
    return rmdir(folder);
}

#endif
