/* The context of linear_fixture.h with a pack of conv2d's variants. */
#ifndef GNF_CONV2D_FIXTURE_H
#define GNF_CONV2D_FIXTURE_H

#include "linear_fixture.h"

/* clang-format off */
#define CONV(sums, weight_bytes) \
    "{\"method\":\"own\",\"weights\":\"each\",\"chunks\":1,\"sums\":" #sums ",\"least\":1,\"most\":0," \
    "\"samples_max\":0,\"weight_bytes\":" #weight_bytes "}"
#define CONV_WEIGHTS STEP("weights", "k_convw", "channel", 1, "none", 1, 1) ","
#define STORED(name, alignment, bytes) \
    LINEAR(name, alignment, 32, CONV(1, bytes), CONV_WEIGHTS \
        STEP("tail", "k_conv", "sample", 1, "spatial", 65536, 64) "," STEP("tail", "k_merge", "group", 1, "none", 1, 1) \
        "," STEP("tail", "k_finish", "sample", 1, "none", 1, 1))

/* A sample of the first one's convolution is 8 MiB. */
static const char conv_key[] = "f32[*,2,514,514] | conv2d(8, 3) | groupnorm(2) | add($0:full)";
static const char conv_any[] = "f32[*,2,514,514] | conv2d(8, 3) | groupnorm(2) | add(r: full)";
static const char pool_text[] = "f32[2,3,9,8] | conv2d(4, 3, stride=2, padding=1) | groupnorm(2) | maxpool2d(2)";
static const char conv_manifest[] = MANIFEST(
    ENTRY("f32[*,2,514,514] | conv2d(8, 3) | groupnorm(2) | add($0:full)", "false",
        EXACT("wgmma", 16, CONV(0, 5000), CONV_WEIGHTS STEP("tail", "k_gram", "sample", 1, "sample", 1, 6) ","
              STEP("tail", "k_wide", "output", 131072, "none", 1, 1)) ","
        LINEAR("fused", 16, 32, CONV(0, 4096), CONV_WEIGHTS STEP("tail", "k_stats", "sample", 1, "spatial", 32768, 64) ","
               STEP("tail", "k_apply", "sample", 1, "spatial", 16384, 64)) ","
        STORED("stored", 16, 1001) ","
        STORED("stored.too", 16, 9223372036854775807) ","
        LINEAR("ffma.split", 16, 32, PRODUCT("own", "given", 1, 1, 1, 0, 0),
               STEP("product", "k_ffma", "position", 1024, "none", 1, 1) ","
               STEP("tail", "k_partials", "group", 1, "group", 524288, 8) ","
               STEP("tail", "k_last", "position", 2048, "none", 1, 1)) ","
        LINEAR("ffma.one", 4, 0, PRODUCT("own", "given", 1, 1, 1, 0, 0), FFMA "," TAIL1)) ","
    ENTRY("f32[*,3,9,8] | conv2d(4, 3, stride=2, padding=1) | groupnorm(2) | maxpool2d(2)", "false",
        LINEAR("fused.one", 4, 0, CONV(0, 64), CONV_WEIGHTS STEP("tail", "k_pixels", "output", 3, "none", 1, 1))) ","
    ENTRY("f32 | conv2d | mul($0:full) | groupnorm | maxpool2d | add($1:full)", "true",
        STORED("stored.any", 4, 1001)) ","
    ENTRY("f32 | conv2d | groupnorm", "true",
        LINEAR("ffma.generic", 4, 0, PRODUCT("own", "given", 1, 1, 1, 0, 0), FFMA "," TAIL1) ","
        LINEAR("sgemm.one", 4, 0, PRODUCT("direct", "given", 1, 1, 1, 0, 0), TAIL1) ","
        VARIANT("plain", 4, 70, 0, 0, TAIL1)) ","
    ENTRY("f32 | linear | groupnorm | tanh", "true", LINEAR("conv2d.one", 4, 0, CONV(0, 64), CONV_WEIGHTS TAIL1)) ","
    ENTRY("f32 | groupnorm | maxpool2d", "true",
        VARIANT("pool", 4, 70, 0, 0, KERNEL("k_pool", "0", 32, 0, "output", 4, "none", 1, 1))) ","
    ENTRY("f32 | groupnorm | mean(all)", "true",
        VARIANT("all", 4, 70, 0, 0, KERNEL("k_all", "0", 32, 0, "output", 1, "none", 1, 1))));
/* clang-format on */

static inline gnf_context *open_conv(void)
{
    gnf_context *context = open_linear();
    load_manifest(context, conv_manifest);
    return context;
}

#endif
