/* Packs: what a good one gives, and that no damage does more than a message. */
#define _POSIX_C_SOURCE 200809L
#include "make_pack.h"
#include "pack.h"
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

static const char manifest[] =
    "{\"format\":1,\"generator\":\"0.1.0\",\"parts\":[[0,5],[5,6],[11,0]],\"entries\":["
    "{\"key\":\"f32[*,8,4] | groupnorm(2)\",\"generic\":false,\"variants\":["
    "{\"name\":\"block.t64.v4\",\"strategy\":\"block\",\"parameters\":{\"threads\":64,\"vector\":4},"
    "\"alignment\":16,"
    "\"capability\":80,\"workspace\":0,\"group_max\":4096,\"kernels\":[{\"entry\":\"gnf_a\",\"parts\":[0,1,2,"
    "0],"
    "\"block\":64,\"shared\":128,\"unit\":\"group\",\"units_per_block\":2,\"span\":\"none\",\"tile\":1,"
    "\"cap\":1}]},"
    "{\"name\":\"split.c9\",\"strategy\":\"split\",\"parameters\":{},\"alignment\":4,\"capability\":70,"
    "\"workspace\":12,\"group_max\":0,\"kernels\":[{\"entry\":\"gnf_b\",\"parts\":[0],\"block\":1024,"
    "\"shared\":0,"
    "\"unit\":\"sample\",\"units_per_block\":1,\"span\":\"group\",\"tile\":9,\"cap\":7},{\"entry\":\"gnf_c\","
    "\"parts\":[1],\"block\":32,\"shared\":262144,\"unit\":\"group\",\"units_per_block\":1,\"span\":"
    "\"spatial\","
    "\"tile\":5,\"cap\":2147483647}]}]},"
    "{\"key\":\"f32 | linear\",\"generic\":true,\"variants\":[{\"name\":\"fp16x3.s2\",\"strategy\":\"s\","
    "\"parameters\":{},\"alignment\":4,\"capability\":80,\"workspace\":0,\"group_max\":0,"
    "\"product\":{\"method\":\"fp16x3\",\"weights\":\"each\",\"chunks\":2,\"sums\":3,\"least\":17,\"most\":"
    "99,"
    "\"samples_max\":200,\"inputs_max\":4096},\"kernels\":["
    "{\"entry\":\"gnf_w\",\"role\":\"weights\",\"parts\":[0],\"block\":32,\"shared\":0,\"unit\":\"channel\","
    "\"units_per_block\":1,\"span\":\"none\",\"tile\":1,\"cap\":1},"
    "{\"entry\":\"gnf_x\",\"role\":\"inputs\",\"parts\":[0],\"block\":32,\"shared\":0,\"unit\":\"sample\","
    "\"units_per_block\":1,\"span\":\"none\",\"tile\":1,\"cap\":1},"
    "{\"entry\":\"gnf_p\",\"role\":\"product\",\"parts\":[0],\"block\":32,\"shared\":0,\"unit\":\"sample\","
    "\"units_per_block\":64,\"span\":\"channels\",\"tile\":64,\"cap\":9},"
    "{\"entry\":\"gnf_t\",\"role\":\"tail\",\"parts\":[0],\"block\":32,\"shared\":0,\"unit\":\"group\","
    "\"units_per_block\":1,\"span\":\"none\",\"tile\":1,\"cap\":1}]}]},"
    "{\"key\":\"f32 | "
    "groupnorm\",\"generic\":true,\"variants\":[{\"name\":\"generic.t32\",\"strategy\":\"generic\","
    "\"parameters\":{\"threads\":32},\"alignment\":4,\"capability\":70,\"workspace\":0,\"group_max\":0,"
    "\"kernels\":["
    "{\"entry\":\"gnf_d\",\"parts\":[2],\"block\":32,\"shared\":0,\"unit\":\"group\",\"units_per_block\":1,"
    "\"span\":\"sample\",\"tile\":1,\"cap\":1}]}]},"
    "{\"key\":\"f32 | conv2d\",\"generic\":true,\"variants\":[{\"name\":\"conv2d_fused\",\"strategy\":\"s\","
    "\"parameters\":{\"warps\":4,\"precision\":\"hi_lo\"},\"alignment\":4,\"capability\":80,\"workspace\":0,"
    "\"group_max\":0,\"product\":{\"method\":\"own\",\"weights\":\"each\",\"chunks\":1,\"sums\":0,\"least\":"
    "1,"
    "\"most\":0,\"samples_max\":0,\"weight_bytes\":4608},\"kernels\":["
    "{\"entry\":\"gnf_v\",\"role\":\"weights\",\"parts\":[0],\"block\":32,\"shared\":0,\"unit\":\"channel\","
    "\"units_per_block\":1,\"span\":\"none\",\"tile\":1,\"cap\":1},"
    "{\"entry\":\"gnf_y\",\"role\":\"tail\",\"parts\":[0],\"block\":32,\"shared\":0,\"unit\":\"output\","
    "\"units_per_block\":64,\"span\":\"none\",\"tile\":1,\"cap\":1}]}]}]}";
static const char parts[] = "firstsecond";

static gnf_status read_text(struct gnf_pack **pack, const char *text, size_t length)
{
    size_t size;
    unsigned char *data = make_pack(text, length, parts, &size);
    gnf_status status = gnf_pack_read(pack, data, size, "test");
    free(data);
    return status;
}

static void good_pack(void **state)
{
    struct gnf_pack *pack;
    const struct gnf_variant *variant;
    char *source;
    int count;
    (void)state;
    if (read_text(&pack, manifest, strlen(manifest)) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    assert_string_equal(gnf_pack_name(pack), "test");
    assert_null(gnf_pack_find(pack, "f32 | groupnor", &count));
    assert_int_equal(count, 0);

    variant = gnf_pack_find(pack, "f32[*,8,4] | groupnorm(2)", &count);
    assert_int_equal(count, 2);
    assert_string_equal(variant->name, "block.t64.v4");
    assert_string_equal(variant->strategy, "block");
    assert_string_equal(variant->parameters, "threads 64, vector 4");
    assert_int_equal(variant->alignment, 16);
    assert_int_equal(variant->capability, 80);
    assert_int_equal(variant->group_max, 4096);
    assert_false(variant->generic);
    assert_int_equal(variant->kernel_count, 1);
    assert_string_equal(variant->kernel[0].entry, "gnf_a");
    assert_int_equal(variant->kernel[0].block, 64);
    assert_int_equal(variant->kernel[0].shared_bytes, 128);
    assert_int_equal(variant->kernel[0].units_per_block, 2);
    assert_int_equal(gnf_pack_source(pack, &variant->kernel[0], &source), GNF_OK);
    assert_string_equal(source, "firstsecondfirst");
    free(source);

    assert_string_equal(variant[1].parameters, "");
    assert_int_equal(variant[1].workspace, 12);
    assert_int_equal(variant[1].kernel_count, 2);
    assert_int_equal(variant[1].kernel[0].unit, GNF_UNIT_SAMPLE);
    assert_int_equal(variant[1].kernel[0].span, GNF_SPAN_GROUP);
    assert_int_equal(variant[1].kernel[0].tile, 9);
    assert_int_equal(variant[1].kernel[0].cap, 7);
    assert_int_equal(variant[1].kernel[1].span, GNF_SPAN_SPATIAL);

    variant = gnf_pack_find(pack, "f32 | groupnorm", &count);
    assert_int_equal(count, 1);
    assert_true(variant->generic);
    assert_int_equal(variant->kernel[0].span, GNF_SPAN_SAMPLE);
    static const char *const keys[] = {"f32 | conv2d", "f32 | groupnorm", "f32 | linear",
                                       "f32[*,8,4] | groupnorm(2)"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(gnf_pack_entry(pack, i, &variant, &count), keys[i]);
    assert_null(gnf_pack_entry(pack, 4, &variant, &count));
    assert_null(gnf_pack_entry(pack, -1, &variant, &count));
    gnf_pack_free(pack);
}

static void check_product(const struct gnf_pack *pack)
{
    int count;
    const struct gnf_variant *variant = gnf_pack_find(pack, "f32 | linear", &count);
    const struct gnf_product *product = &variant->product;
    assert_int_equal(count, 1);
    assert_int_equal(product->method, GNF_METHOD_FP16X3);
    assert_int_equal(product->weights, GNF_WEIGHTS_EACH);
    assert_int_equal(product->chunks, 2);
    assert_int_equal(product->sums, 3);
    assert_int_equal(product->least, 17);
    assert_int_equal(product->most, 99);
    assert_int_equal(product->samples_max, 200);
    assert_int_equal(product->inputs_max, 4096);
    for (int i = 0; i < 4; i++)
        assert_int_equal(variant->kernel[i].role, GNF_ROLE_WEIGHTS + i);
    assert_int_equal(variant->kernel[0].unit, GNF_UNIT_CHANNEL);
    assert_int_equal(variant->kernel[2].span, GNF_SPAN_CHANNELS);
    variant = gnf_pack_find(pack, "f32 | conv2d", &count);
    assert_string_equal(variant->parameters, "warps 4, precision hi_lo");
    assert_int_equal(variant->product.method, GNF_METHOD_OWN);
    assert_int_equal(variant->product.weights, GNF_WEIGHTS_EACH);
    assert_int_equal(variant->product.sums, 0);
    assert_int_equal(variant->product.weight_bytes, 4608);
    assert_int_equal(variant->kernel[1].unit, GNF_UNIT_OUTPUT);
    /* without a product there are only tails, said or not */
    variant = gnf_pack_find(pack, "f32[*,8,4] | groupnorm(2)", &count);
    assert_int_equal(variant[1].product.method, GNF_METHOD_NONE);
    assert_int_equal(variant[1].kernel[0].role, GNF_ROLE_TAIL);
    assert_int_equal(variant[1].kernel[1].role, GNF_ROLE_TAIL);
}

/* Roles and products, as read and as written back. */
static void products(void **state)
{
    struct gnf_pack *pack, *again;
    void *data;
    size_t size;
    (void)state;
    assert_int_equal(read_text(&pack, manifest, strlen(manifest)), GNF_OK);
    check_product(pack);
    assert_int_equal(gnf_pack_write(pack, &data, &size), GNF_OK);
    assert_int_equal(gnf_pack_read(&again, data, size, "again"), GNF_OK);
    check_product(again);
    free(data);
    gnf_pack_free(again);
    gnf_pack_free(pack);
}

/* Of the sources of all kernels of a variant, and of nothing else. */
static void source_hash(void **state)
{
    static const char moved[] = "secondfirst";
    struct gnf_pack *pack, *same;
    char a[33], b[33], c[33];
    size_t size;
    int count;
    (void)state;
    assert_int_equal(read_text(&pack, manifest, strlen(manifest)), GNF_OK);
    struct gnf_variant variant = *gnf_pack_find(pack, "f32[*,8,4] | groupnorm(2)", &count);
    assert_int_equal(gnf_pack_source_hash(pack, &variant, a), GNF_OK);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    /* XXH3-128 of 16 in eight bytes and "firstsecondfirst"; it is in every database, and must stay. */
    assert_string_equal(a, "7aa43ce8db243c62d0bf374a3866cee6");
    /* the same text in other parts, another name and other limits: the same */
    const int whole[] = {0, 1, 0}, split[] = {0, 1}, rest[] = {0}, other[] = {1, 0, 0};
    variant.name = "other";
    variant.alignment = 4;
    variant.kernel[0].part = whole;
    variant.kernel[0].part_count = 3;
    variant.kernel[0].block = 96;
    assert_int_equal(gnf_pack_source_hash(pack, &variant, b), GNF_OK);
    assert_string_equal(a, b);
    /* the same bytes in two kernels, and another order: not the same */
    variant.kernel[0].part = split;
    variant.kernel[0].part_count = 2;
    variant.kernel[1] = variant.kernel[0];
    variant.kernel[1].part = rest;
    variant.kernel[1].part_count = 1;
    variant.kernel_count = 2;
    assert_int_equal(gnf_pack_source_hash(pack, &variant, b), GNF_OK);
    assert_string_not_equal(a, b);
    variant.kernel_count = 1;
    variant.kernel[0].part = other;
    variant.kernel[0].part_count = 3;
    assert_int_equal(gnf_pack_source_hash(pack, &variant, c), GNF_OK);
    assert_string_not_equal(a, c);
    assert_string_not_equal(b, c);
    /* another pack's bytes */
    unsigned char *data = make_pack(manifest, strlen(manifest), moved, &size);
    assert_int_equal(gnf_pack_read(&same, data, size, "moved"), GNF_OK);
    assert_int_equal(gnf_pack_source_hash(same, gnf_pack_find(same, "f32[*,8,4] | groupnorm(2)", &count), b),
                     GNF_OK);
    assert_string_not_equal(a, b);
    free(data);
    gnf_pack_free(same);
    gnf_pack_free(pack);
}

/* The manifest with the first `old` replaced is refused, with a message that has all of `words`. */
static void refused(const char *old, const char *new, const char *const words[4])
{
    struct gnf_pack *pack;
    char text[8192];
    const char *at = strstr(manifest, old);
    assert_non_null(at);
    int length =
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - manifest), manifest, new, at + strlen(old));
    gnf_status status = read_text(&pack, text, (size_t)length);
    if (status != GNF_BAD_PACK || pack)
        fail_msg("status %d for %s -> %s", status, old, new);
    for (int i = 0; i < 4 && words[i]; i++)
        if (!strstr(gnf_error_message(), words[i]))
            fail_msg("no \"%s\" in: %s", words[i], gnf_error_message());
}

static void bad_fields(void **state)
{
    static const struct {
        const char *old, *new, *words[4];
    } rows[] = {
        {"\"format\":1", "\"format\":2", {"format = 2"}},
        {"\"format\":1", "\"format\":\"1\"", {"format"}},
        {"\"parts\":[[0,5]", "\"parts\":[[0,12]", {"size of a part = 12", "0 to 11"}},
        {"\"parts\":[[0,5]", "\"parts\":[[-1,5]", {"offset of a part = -1"}},
        {"\"parts\":[[0,5]", "\"parts\":[[12,0]", {"offset of a part = 12"}},
        {"\"parts\":[[0,5]", "\"parts\":[[5,9223372036854775807]", {"size of a part"}},
        {"\"parts\":[[0,5]", "\"parts\":[[0]", {"a part has 1 elements"}},
        {"\"parts\":[[0,5],[5,6],[11,0]]", "\"parts\":7", {"parts is of another type"}},
        {"\"entries\":[", "\"entrees\":[", {"entries is missing"}},
        {"\"key\":\"f32[*,8,4] | groupnorm(2)\"", "\"key\":\"\"", {"key has 0 bytes"}},
        {"\"key\":\"f32[*,8,4] | groupnorm(2)\"", "\"key\":\"f32 | groupnorm\"", {"two entries"}},
        {"\"key\":\"f32[*,8,4] | groupnorm(2)\"", "\"key\":\"a\\u0001\"", {"byte 1"}},
        {"\"generic\":false", "\"generic\":0", {"f32[*,8,4]", "generic"}},
        {"\"name\":\"split.c9\"", "\"name\":\"block.t64.v4\"", {"two variants"}},
        {"\"name\":\"split.c9\"", "\"name\":null", {"name"}},
        {"\"parameters\":{\"threads\":64",
         "\"parameters\":{\"threads\":6.5",
         {"block.t64.v4", "parameter threads", "words"}},
        {"\"parameters\":{}", "\"parameters\":[]", {"split.c9", "parameters"}},
        {"\"alignment\":16", "\"alignment\":12", {"alignment = 12", "powers of two"}},
        {"\"alignment\":16", "\"alignment\":0", {"alignment = 0"}},
        {"\"capability\":80", "\"capability\":-1", {"capability = -1"}},
        {"\"workspace\":12", "\"workspace\":9999999", {"workspace = 9999999"}},
        {"\"group_max\":0", "\"group_max\":-5", {"group_max = -5"}},
        {"\"kernels\":[{\"entry\":\"gnf_a\"",
         "\"kernels\":[],\"other\":[{\"entry\":\"gnf_a\"",
         {"kernels has 0"}},
        {"\"entry\":\"gnf_a\"", "\"entry\":\"1a\"", {"entry = '1a'", "C name"}},
        {"\"entry\":\"gnf_a\"", "\"entry\":\"a b\"", {"entry = 'a b'"}},
        {"\"parts\":[0,1,2,0]", "\"parts\":[0,3]", {"kernel 0", "a part = 3", "0 to 2"}},
        {"\"parts\":[0,1,2,0]", "\"parts\":[]", {"parts has 0 elements"}},
        {"\"block\":64", "\"block\":48", {"block.t64.v4", "kernel 0", "block = 48", "multiples of 32"}},
        {"\"block\":64", "\"block\":2048", {"block = 2048", "32 to 1024"}},
        {"\"block\":64", "\"block\":0", {"block = 0"}},
        {"\"block\":32", "\"block\":31", {"split.c9", "kernel 1", "block = 31"}},
        {"\"shared\":128", "\"shared\":262145", {"shared = 262145"}},
        {"\"shared\":128", "\"shared\":-1", {"shared = -1"}},
        {"\"unit\":\"group\"", "\"unit\":\"grup\"", {"unit = 'grup'"}},
        {"\"units_per_block\":2", "\"units_per_block\":0", {"units_per_block = 0"}},
        {"\"span\":\"none\"", "\"span\":3", {"span"}},
        {"\"tile\":1", "\"tile\":0", {"tile = 0"}},
        {"\"tile\":9", "\"tile\":99999999999999999999", {"JSON"}},
        {"\"cap\":1", "\"cap\":0", {"cap = 0"}},
        {"\"cap\":7", "\"cap\":7,\"cap\":7", {"JSON"}},
        {"{\"format\"", "[{\"format\"", {"JSON"}},
        {"\"product\":{", "\"product\":7,\"other\":{", {"fp16x3.s2", "product is of another type"}},
        {"\"product\":{", "\"produce\":{", {"fp16x3.s2", "product is missing"}},
        {"\"method\":\"fp16x3\"", "\"method\":\"fp16x2\"", {"method = 'fp16x2'"}},
        {"\"method\":\"fp16x3\"", "\"method\":\"own\"", {"kernels are not those of its product"}},
        {"\"method\":\"fp16x3\"", "\"method\":\"fp16x1\"", {"chunks = 2: allowed are 1"}},
        {"\"weights\":\"each\"", "\"weights\":\"some\"", {"weights = 'some'"}},
        {"\"weights\":\"each\"", "\"weights\":\"given\"", {"weights are not those of its product"}},
        {"\"chunks\":2", "\"chunks\":0", {"chunks = 0: allowed are 1 to 16"}},
        {"\"chunks\":2,\"sums\":3", "\"chunks\":3,\"sums\":4", {"chunks = 3"}},
        {"\"sums\":3", "\"sums\":2", {"sums = 2: allowed is 3"}},
        {"\"sums\":3", "\"sums\":18", {"sums = 18: allowed are 0 to 17"}},
        {"\"least\":17", "\"least\":-1", {"least = -1"}},
        {"\"most\":99", "\"most\":\"99\"", {"most is of another type"}},
        {"\"samples_max\":200,", "", {"samples_max is missing"}},
        {"\"inputs_max\":4096", "\"inputs_max\":-1", {"inputs_max = -1"}},
        {"\"role\":\"weights\"", "\"role\":\"weight\"", {"kernel 0", "role = 'weight'"}},
        {"\"role\":\"weights\"", "\"role\":\"inputs\"", {"kernels are not those of its product"}},
        {"\"role\":\"inputs\"", "\"role\":\"tail\"", {"kernel 2 is out of order"}},
        {"\"role\":\"product\"", "\"role\":\"inputs\"", {"kernels are not those of its product"}},
        {"\"role\":\"tail\"", "\"role\":\"product\"", {"no tail"}},
        {"\"unit\":\"channel\"", "\"unit\":\"channels\"", {"unit = 'channels'"}},
        {"\"unit\":\"output\"", "\"unit\":\"outputs\"", {"unit = 'outputs'", "up to output"}},
        {"\"precision\":\"hi_lo\"", "\"precision\":\"\"", {"precision has 0 bytes"}},
        {"\"precision\":\"hi_lo\"", "\"precision\":true", {"parameter precision", "whole numbers and words"}},
        {"\"precision\":\"hi_lo\"", "\"precision\":\"\\n\"", {"precision holds byte 10"}},
        {"\"method\":\"own\"", "\"method\":\"direct\"", {"conv2d_fused", "weights are not those"}},
        {"\"own\",\"weights\":\"each\"", "\"own\",\"weights\":\"prepared\"", {"weights are not those"}},
        {"\"own\",\"weights\":\"each\"", "\"own\",\"weights\":\"given\"", {"kernels are not those"}},
        {"\"entry\":\"gnf_v\",\"role\":\"weights\"",
         "\"entry\":\"gnf_v\",\"role\":\"product\"",
         {"kernels are not those"}},
        {"\"entry\":\"gnf_v\",\"role\":\"weights\"", "\"entry\":\"gnf_v\"", {"kernels are not those"}},
        {"{\"entry\":\"gnf_y\"",
         "{\"entry\":\"gnf_y\",\"role\":\"product\",\"parts\":[0],\"block\":32,\"shared\":0,\"unit\":"
         "\"output\","
         "\"units_per_block\":64,\"span\":\"none\",\"tile\":1,\"cap\":1},{\"entry\":\"gnf_y\"",
         {"kernels are not those"}},
        {"\"sums\":0", "\"sums\":2", {"sums = 2: allowed are 0 and 1"}},
        {"\"sums\":0", "\"sums\":-1", {"sums = -1"}},
        {"\"weight_bytes\":4608", "\"weight_bytes\":-1", {"weight_bytes = -1"}},
        {"\"weight_bytes\":4608", "\"weight_bytes\":\"4608\"", {"weight_bytes is of another type"}},
        {"\"inputs_max\":4096", "\"weight_bytes\":7", {"fp16x3.s2", "weight_bytes = 7: allowed is 0"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].old, rows[i].new, rows[i].words);
}

static void expect_bad(const unsigned char *data, size_t size, const char *words)
{
    struct gnf_pack *pack;
    assert_int_equal(gnf_pack_read(&pack, data, size, "test"), GNF_BAD_PACK);
    assert_null(pack);
    if (!strstr(gnf_error_message(), words))
        fail_msg("no \"%s\" in: %s", words, gnf_error_message());
}

static void damage(void **state)
{
    size_t size;
    unsigned char *data = make_pack(manifest, strlen(manifest), parts, &size);
    unsigned char *longer = calloc(1, size + 1);
    (void)state;
    int same = 0;
    for (size_t length = 0; length < size; length++) {
        /* an exact copy, so that a read past the end shows */
        unsigned char *cut = malloc(length ? length : 1);
        memcpy(cut, data, length);
        expect_bad(cut, length, "test");
        free(cut);
    }
    for (size_t bit = 0; bit < 8 * size; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        struct gnf_pack *pack;
        gnf_status status = gnf_pack_read(&pack, data, size, "test");
        if (status == GNF_OK) {
            /* another way to write the same content */
            char *source;
            int count;
            const struct gnf_variant *variant = gnf_pack_find(pack, "f32[*,8,4] | groupnorm(2)", &count);
            assert_non_null(variant);
            assert_int_equal(gnf_pack_source(pack, variant->kernel, &source), GNF_OK);
            assert_string_equal(source, "firstsecondfirst");
            free(source);
            same++;
        } else {
            assert_int_equal(status, GNF_BAD_PACK);
        }
        gnf_pack_free(pack);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_true(same < 40);
    memcpy(longer, data, size);
    expect_bad(longer, size + 1, "after its end");
    memcpy(longer, "notapack", 8);
    expect_bad(longer, size, "not a gnfuse pack");
    data[8] = 2;
    expect_bad(data, size, "format 2 is newer than this library");
    free(longer);
    free(data);
}

/* Damage that the checksum does not see: each byte of the manifest replaced, in a pack that is whole. */
static void mutated_manifest(void **state)
{
    static const char bytes[] = "0-\"{}[],:x\\\xff";
    char *text = strdup(manifest);
    (void)state;
    for (size_t i = 0; text[i]; i++) {
        char kept = text[i];
        for (const char *byte = bytes; *byte; byte++) {
            struct gnf_pack *pack;
            text[i] = *byte;
            gnf_status status = read_text(&pack, text, strlen(text));
            assert_true(status == (pack ? GNF_OK : GNF_BAD_PACK));
            gnf_pack_free(pack);
        }
        text[i] = kept;
    }
    free(text);
}

static void hostile_sizes(void **state)
{
    struct gnf_pack *pack;
    unsigned char huge[64] = "gnfpack\n";
    size_t size;
    (void)state;
    put_little(huge + 8, 1, 8);
    put_little(huge + 16, 0xFD2FB528, 4);
    huge[20] = 0xE4; /* single segment, checksum, size in 8 bytes */
    put_little(huge + 21, UINT64_C(1) << 40, 8);
    expect_bad(huge, sizeof huge, "1099511627776 bytes");
    put_little(huge + 21, UINT64_MAX, 8);
    expect_bad(huge, sizeof huge, "no zstd frame");

    unsigned char *data = make_pack("{}", 2, "", &size);
    expect_bad(data, size, "format is missing");
    free(data);
    /* a manifest longer than all that was compressed */
    unsigned char content[16] = {0}, frame[64];
    put_little(content, 9, 8);
    memcpy(frame, huge, 16);
    size = ZSTD_compress(frame + 16, sizeof frame - 16, content, sizeof content, 1);
    expect_bad(frame, 16 + size, "manifest of 9 bytes");
    /* nesting beyond the JSON reader's patience */
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    assert_int_equal(read_text(&pack, deep, 100000), GNF_BAD_PACK);
    free(deep);
}

static void files(void **state)
{
    struct gnf_pack *pack;
    char path[] = "/tmp/gnf_test_pack_XXXXXX";
    size_t size;
    unsigned char *data = make_pack(manifest, strlen(manifest), parts, &size);
    int file = mkstemp(path), count;
    (void)state;
    assert_true(file >= 0 && write(file, data, size) == (ssize_t)size);
    close(file);
    assert_int_equal(gnf_pack_load(&pack, path), GNF_OK);
    assert_non_null(gnf_pack_find(pack, "f32 | groupnorm", &count));
    gnf_pack_free(pack);
    unlink(path);
    free(data);
    assert_int_equal(gnf_pack_load(&pack, path), GNF_IO);
    assert_non_null(strstr(gnf_error_message(), path));
    assert_null(pack);
    assert_int_equal(gnf_pack_load(&pack, "/"), GNF_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_pack),     cmocka_unit_test(products), cmocka_unit_test(source_hash),
        cmocka_unit_test(bad_fields),    cmocka_unit_test(damage),   cmocka_unit_test(mutated_manifest),
        cmocka_unit_test(hostile_sizes), cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
