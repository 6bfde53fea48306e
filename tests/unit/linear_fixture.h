/* A context on the fake driver and the stub of cuBLASLt, with a pack of products and tails. */
#ifndef GNF_LINEAR_FIXTURE_H
#define GNF_LINEAR_FIXTURE_H

#include "linear.h"
#include "plan_fixture.h"
#include "stub_cublaslt.h"
#include <dlfcn.h>

/* clang-format off */
#define STEP(role, name, unit, units_per_block, span, tile, cap) \
    "{\"role\":\"" role "\",\"entry\":\"" name "\",\"parts\":[0],\"block\":128,\"shared\":0,\"unit\":\"" unit \
    "\",\"units_per_block\":" #units_per_block ",\"span\":\"" span "\",\"tile\":" #tile ",\"cap\":" #cap "}"
#define PRODUCT(method, weights, chunks, sums, least, most, samples_max) \
    "{\"method\":\"" method "\",\"weights\":\"" weights "\",\"chunks\":" #chunks ",\"sums\":" #sums ",\"least\":" #least \
    ",\"most\":" #most ",\"samples_max\":" #samples_max "}"
#define LINEAR(name, alignment, workspace, product, kernels) \
    "{\"name\":\"" name "\",\"strategy\":\"s\",\"parameters\":{},\"alignment\":" #alignment ",\"capability\":70," \
    "\"workspace\":" #workspace ",\"group_max\":0,\"product\":" product ",\"kernels\":[" kernels "]}"
#define TAIL4 STEP("tail", "k_tail4", "group", 4, "none", 1, 1)
#define TAIL1 STEP("tail", "k_tail1", "group", 1, "none", 1, 1)
#define SPLIT \
    STEP("weights", "k_splitw", "channel", 1, "none", 1, 1) "," STEP("inputs", "k_splitx", "sample", 1, "none", 1, 1) \
    "," STEP("product", "k_repair", "sample", 64, "channels", 32, 1000000) ","
#define WGMMA \
    STEP("weights", "k_tilew", "channel", 1, "none", 1, 1) "," STEP("inputs", "k_tilex", "sample", 1, "none", 1, 1) \
    ",{\"role\":\"product\",\"entry\":\"k_wgmma\",\"parts\":[0],\"block\":288,\"shared\":196672,\"unit\":\"sample\"," \
    "\"units_per_block\":128,\"span\":\"channels\",\"tile\":128,\"cap\":1000000,\"exact\":true,\"cluster\":2}," \
    STEP("product", "k_repair", "sample", 64, "channels", 128, 1000000) ","
#define EXACT(name, alignment, product, kernels) \
    "{\"name\":\"" name "\",\"strategy\":\"s\",\"parameters\":{},\"alignment\":" #alignment ",\"capability\":90," \
    "\"exact\":true,\"workspace\":0,\"group_max\":0,\"product\":" product ",\"kernels\":[" kernels "]}"
#define YIELDING \
    "{\"method\":\"fp16x3\",\"weights\":\"prepared\",\"chunks\":2,\"sums\":3,\"least\":17,\"most\":0,\"samples_max\":0," \
    "\"yields\":true}"
#define FFMA STEP("product", "k_ffma", "sample", 64, "channels", 64, 1000000)

static const char linear_text[] = "f32[100,300] | linear(64) | groupnorm(8) | add(r: full)";
static const char linear_any[] = "f32[*,300] | linear(64) | groupnorm(8) | add(r: full)";
static const char linear_key[] = "f32[*,300,1] | linear(64) | groupnorm(8) | add($0:full)";
static const char linear_manifest[] = MANIFEST(
    ENTRY("f32[*,300,1] | linear(64) | groupnorm(8) | add($0:full)", "false",
        LINEAR("dot.n1.four", 16, 0, PRODUCT("own", "given", 1, 1, 1, 1, 1),
               STEP("product", "k_dot", "channel", 8, "none", 1, 1) "," TAIL4) ","
        LINEAR("fp16x3.s2.four", 16, 0, PRODUCT("fp16x3", "prepared", 2, 3, 17, 0, 0), SPLIT TAIL4) ","
        LINEAR("fp16x3.s2.one", 4, 0, PRODUCT("fp16x3", "prepared", 2, 3, 17, 0, 0), SPLIT TAIL1) ","
        LINEAR("fp16x3.s2.each.four", 16, 0, PRODUCT("fp16x3", "each", 2, 3, 128, 0, 0), SPLIT TAIL4) ","
        LINEAR("sgemm.four", 16, 0, PRODUCT("direct", "given", 1, 1, 17, 0, 0), TAIL4) ","
        LINEAR("sgemm.one", 4, 0, PRODUCT("direct", "given", 1, 1, 17, 0, 0), TAIL1) ","
        LINEAR("tf32.four", 16, 0, PRODUCT("tf32", "given", 1, 1, 17, 0, 0), TAIL4) ","
        LINEAR("ffma.split", 4, 12, PRODUCT("own", "given", 1, 1, 1, 0, 0),
               FFMA "," STEP("tail", "k_statistics", "group", 1, "group", 3, 8) ","
               STEP("tail", "k_apply", "sample", 1, "none", 1, 1))) ","
    ENTRY("f32[*,300,1] | linear(64, tf32) | groupnorm(8)", "false",
        LINEAR("fp16x1.one", 4, 0, PRODUCT("fp16x1", "prepared", 1, 1, 17, 0, 0), SPLIT TAIL1) ","
        LINEAR("tf32.one", 4, 0, PRODUCT("tf32", "given", 1, 1, 17, 0, 0), TAIL1) ","
        LINEAR("fp16x3.s2.four", 16, 0, PRODUCT("fp16x3", "prepared", 2, 3, 17, 0, 0), SPLIT TAIL4)) ","
    ENTRY("f32[*,300,1] | linear(300) | groupnorm(3)", "false",
        EXACT("wgmma.k256.four", 16, PRODUCT("wgmma", "prepared", 1, 1, 17, 0, 0), WGMMA TAIL4) ","
        EXACT("wgmma.k256.one", 4, PRODUCT("wgmma", "prepared", 1, 1, 17, 0, 0), WGMMA TAIL1) ","
        LINEAR("fp16x3.s2.four", 16, 0, YIELDING, SPLIT TAIL4) ","
        LINEAR("fp16x3.s2.one", 4, 0, YIELDING, SPLIT TAIL1) ","
        EXACT("wgmma.k256.each.four", 16, PRODUCT("wgmma", "each", 1, 1, 128, 0, 0), WGMMA TAIL4) ","
        EXACT("wgmma.k256.each.one", 4, PRODUCT("wgmma", "each", 1, 1, 128, 0, 0), WGMMA TAIL1) ","
        LINEAR("ffma.one", 4, 0, PRODUCT("own", "given", 1, 1, 1, 0, 0), FFMA "," TAIL1)) ","
    ENTRY("f16[*,300,1] | linear(64) | groupnorm(8) | sum", "false",
        LINEAR("gemm.one", 2, 0, PRODUCT("direct", "given", 1, 1, 17, 0, 0), TAIL1) ","
        LINEAR("ffma.one", 2, 0, PRODUCT("own", "given", 1, 1, 1, 0, 0), FFMA "," TAIL1)) ","
    ENTRY("f32 | linear | groupnorm", "true",
        LINEAR("ffma.generic", 4, 0, PRODUCT("own", "given", 1, 1, 1, 0, 0), FFMA "," TAIL1) ","
        "{\"name\":\"strange\",\"strategy\":\"s\",\"parameters\":{},\"alignment\":4,\"capability\":70,\"workspace\":0,"
        "\"group_max\":0,\"kernels\":[" TAIL1 "]}") ","
    ENTRY("f32[*,8,1] | groupnorm(8)", "false",
        LINEAR("strange.one", 4, 0, PRODUCT("own", "given", 1, 1, 1, 0, 0), FFMA "," TAIL1)));
/* clang-format on */

static const char *nvrtc_path, *stub_path;
static struct stub_cublaslt *stub;

static inline gnf_context *open_linear(void)
{
    setenv("STUB_NVRTC_ARCHS", "89,90", 1);
    cublaslt = stub_path;
    gnf_context *context = open_context(nvrtc_path, true);
    context->device.driver_version = 12030;
    load_manifest(context, linear_manifest);
    *stub = (struct stub_cublaslt){
        .algorithms = 3, .broken = -1, .workspace = 1000, .launches = &fake.launch_count};
    return context;
}

/* And that nothing of cuBLASLt's is left. */
static inline void close_linear(gnf_context *context)
{
    gnf_context_destroy(&context);
    assert_int_equal(stub->alive, 0);
}

static inline bool open_stub(int count, char **arguments)
{
    if (count != 3)
        return false;
    nvrtc_path = arguments[1];
    stub_path = arguments[2];
    void *library = dlopen(stub_path, RTLD_NOW);
    stub = library ? dlsym(library, "stub_cublaslt") : NULL;
    return stub != NULL;
}

static inline gnf_plan *plan_at(gnf_context *context, const char *problem, int64_t samples, int prepared)
{
    const gnf_plan_options options = {.size = sizeof options, .samples = samples, .prepared = prepared};
    return plan_for(context, problem, &options);
}

static inline void takes(const gnf_plan *plan, const char *variant)
{
    gnf_plan_info info = {.size = sizeof info};
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, variant);
}

/* ---- executions ---- */

enum { X = 0x10000000, Y = 0x20000000, R = 0x30000000, WORKSPACE = 0x40000000, WEIGHT = 0x50000000 };
enum { PREPARED = 0x60000000, BIAS = 0x70000000 };

static inline gnf_arguments arguments_of(const gnf_plan *plan)
{
    return (gnf_arguments){
        .size = sizeof(gnf_arguments),
        .x = X,
        .y = Y,
        .operand = {R},
        .workspace = WORKSPACE,
        .workspace_size = gnf_plan_workspace_size(plan),
        .weight = WEIGHT,
        .bias = BIAS,
        .prepared = PREPARED,
    };
}

static inline void reset(void)
{
    fake.launch_count = stub->count = 0;
}

/* "k_splitx * k_repair ...", of everything since the last reset or call, cuBLASLt's products as "*". What
 * each launch was given stays. */
static inline const char *sequence(void)
{
    static char text[2048];
    int product = 0, length = 0;
    text[0] = '\0';
    for (int i = 0; i <= fake.launch_count; i++) {
        for (; product < stub->count && stub->matmul[product].launches == i; product++)
            length += snprintf(text + length, sizeof text - (size_t)length, "* ");
        if (i < fake.launch_count)
            length += snprintf(text + length, sizeof text - (size_t)length, "%s ", fake.launched[i]);
    }
    reset();
    return text;
}

/* Of a variant that a manifest's entry has; without it. */
static inline struct gnf_choice size_in(const char *content, const char *key, const char *name,
                                        const char *problem_text, gnf_status status)
{
    struct gnf_pack *pack;
    struct gnf_problem problem;
    size_t bytes;
    int count, i = 0;
    unsigned char *data = make_pack(content, strlen(content), parts, &bytes);
    expect(gnf_pack_read(&pack, data, bytes, "t"), GNF_OK, NULL);
    free(data);
    expect(gnf_problem_parse(problem_text, &problem), GNF_OK, NULL);
    const struct gnf_variant *variants = gnf_pack_find(pack, key, &count);
    while (strcmp(variants[i].name, name))
        i++;
    struct gnf_choice choice = {.variant = &variants[i]};
    expect(gnf_choice_size(&choice, &problem), status, status ? "do not fit 63 bits" : NULL);
    choice.variant = NULL;
    gnf_pack_free(pack);
    return choice;
}

/* ---- records ---- */

/* A database of one record. */
static inline void record_variant(gnf_context *context, const char *key, const char *problem,
                                  const char *variant, int64_t samples, const char *gemm, int multiprocessors)
{
    static char path[300];
    struct gnf_record record = {
        .key = (char *)(uintptr_t)key,
        .problem = (char *)(uintptr_t)problem,
        .samples = samples,
        .variant = (char *)(uintptr_t)variant,
        .source = "00000000000000000000000000000000",
        .nvrtc = 12040,
        .complete = true,
        .time_us = 5,
        .timings = 9,
        .gemm = (char *)(uintptr_t)gemm,
        .date = "2026-11-29T18:03:11Z",
    };
    char *line;
    gnf_record_device_of(&context->device, false, &record.device);
    record.device.memory = 1;
    context->device.memory = 1;
    record.device.multiprocessors = multiprocessors;
    assert_int_equal(gnf_record_write(&record, &line), GNF_OK);
    snprintf(path, sizeof path, "%s/db", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(line, file);
    fclose(file);
    free(line);
    free(context->options.db);
    context->options.db = strdup(path);
    assert_int_equal(gnf_context_reload_tuned(context), GNF_OK);
}

static inline void forget_records(gnf_context *context)
{
    free(context->options.db);
    context->options.db = NULL;
}

#endif
