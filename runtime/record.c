#define _POSIX_C_SOURCE 200809L /* open_memstream, strdup */
#include "record.h"
#include "json.h"
#include "number.h"
#include "problem.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIANT_MAX = 200, ERROR_MAX = 2000, GPU_MAX = 127, DATE_LENGTH = 20 };

const char *const gnf_record_status_names[GNF_RECORD_STATUS_COUNT] = {
    [GNF_RECORD_OK] = "ok",
    [GNF_RECORD_SLOW] = "slow",
    [GNF_RECORD_WRONG] = "wrong",
    [GNF_RECORD_FAILED] = "failed",
    [GNF_RECORD_HUNG] = "hung",
    [GNF_RECORD_REFUSED] = "refused",
    [GNF_RECORD_NOT_COMPILED] = "not compiled",
};

/* ---- reading ---- */

__attribute__((format(printf, 2, 3))) static gnf_status bad(const char *field, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return gnf_fail(GNF_INVALID_ARGUMENT, "%s%s", field, what);
}

static gnf_status no_memory(void)
{
    return gnf_fail(GNF_OUT_OF_MEMORY, "tuning record: no host memory");
}

static gnf_status is_not(const char *field, const json_t *value, const char *allowed)
{
    return bad(field, " is %s: allowed is %s", value ? "of another type" : "missing", allowed);
}

static gnf_status take_whole(const json_t *object, const char *field, int64_t least, int64_t most,
                             int64_t *out)
{
    const json_t *value = json_object_get(object, field);
    if (!json_is_integer(value))
        return is_not(field, value, "a whole number");
    *out = json_integer_value(value);
    if (*out < least || *out > most)
        return bad(field, " = %" PRId64 ": allowed are %" PRId64 " to %" PRId64, *out, least, most);
    return GNF_OK;
}

static gnf_status take_int(const json_t *object, const char *field, int least, int most, int *out)
{
    int64_t value = 0;
    gnf_status status = take_whole(object, field, least, most, &value);
    *out = (int)value;
    return status;
}

static gnf_status take_bool(const json_t *object, const char *field, bool *out)
{
    const json_t *value = json_object_get(object, field);
    if (!json_is_boolean(value))
        return is_not(field, value, "true or false");
    *out = json_is_true(value);
    return GNF_OK;
}

/* Not negative. */
static gnf_status take_number(const json_t *object, const char *field, double *out)
{
    const json_t *value = json_object_get(object, field);
    const char *text = gnf_json_real(value);
    float number;
    *out = 0;
    if (!text && !json_is_integer(value))
        return is_not(field, value, "a number");
    if (text && gnf_number_float(text, strlen(text), &number) != GNF_NUMBER_OK)
        return bad(field, " = %.40s: allowed are numbers up to 3e38", text);
    *out = gnf_json_number(value);
    return *out >= 0 ? GNF_OK : bad(field, " is negative: allowed are 0 and more");
}

/* Points into the object. */
static gnf_status take_text(const json_t *object, const char *field, size_t most, bool ascii,
                            const char **out)
{
    const json_t *value = json_object_get(object, field);
    *out = gnf_json_text(value);
    if (!*out)
        return is_not(field, value, "a string");
    if (!**out || json_string_length(value) > most)
        return bad(field, " has %zu bytes: allowed are 1 to %zu", json_string_length(value), most);
    for (const unsigned char *c = (const unsigned char *)*out; *c; c++)
        if (*c < ' ' || *c == 127 || (ascii && *c > '~'))
            return bad(field, " holds byte %d: allowed are printable %scharacters", *c,
                       ascii ? "ASCII " : "");
    return GNF_OK;
}

static gnf_status copy_text(const json_t *object, const char *field, size_t most, bool ascii, char **out)
{
    const char *text;
    GNF_TRY(take_text(object, field, most, ascii, &text));
    *out = strdup(text);
    return *out ? GNF_OK : no_memory();
}

static gnf_status take_source(const json_t *object, char out[GNF_RECORD_SOURCE_SIZE])
{
    const char *text;
    GNF_TRY(take_text(object, "source", VARIANT_MAX, true, &text));
    if (strlen(text) != GNF_RECORD_SOURCE_SIZE - 1 || strspn(text, "0123456789abcdef") != strlen(text))
        return bad("source", " = '%.40s': allowed are %d hexadecimal digits", text,
                   GNF_RECORD_SOURCE_SIZE - 1);
    memcpy(out, text, GNF_RECORD_SOURCE_SIZE);
    return GNF_OK;
}

static gnf_status take_date(const json_t *object, char out[24])
{
    static const char shape[] = "0000-00-00T00:00:00Z";
    const char *text;
    GNF_TRY(take_text(object, "date", VARIANT_MAX, true, &text));
    bool good = strlen(text) == DATE_LENGTH;
    for (int i = 0; good && i < DATE_LENGTH; i++)
        good = shape[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == shape[i];
    if (!good)
        return bad("date", " = '%.40s': allowed is the form 2026-11-29T18:03:11Z", text);
    memcpy(out, text, DATE_LENGTH + 1);
    return GNF_OK;
}

static gnf_status take_status(const json_t *object, enum gnf_record_status *out)
{
    const char *text;
    GNF_TRY(take_text(object, "status", VARIANT_MAX, true, &text));
    for (int i = 0; i < GNF_RECORD_STATUS_COUNT; i++)
        if (!strcmp(text, gnf_record_status_names[i])) {
            *out = (enum gnf_record_status)i;
            return GNF_OK;
        }
    return bad("status", " = '%.40s': allowed are ok, slow, wrong, failed, hung, refused, not compiled",
               text);
}

static gnf_status take_device(const json_t *object, struct gnf_record_device *device)
{
    const char *gpu;
    GNF_TRY(take_text(object, "gpu", GPU_MAX, false, &gpu));
    snprintf(device->gpu, sizeof device->gpu, "%s", gpu);
    GNF_TRY(take_int(object, "capability", 10, 9999, &device->capability));
    GNF_TRY(take_int(object, "multiprocessors", 1, 1 << 20, &device->multiprocessors));
    GNF_TRY(take_whole(object, "memory", 1, INT64_MAX, &device->memory));
    GNF_TRY(take_whole(object, "l2_bytes", 0, INT64_MAX, &device->l2_bytes));
    return json_object_get(object, "simulated") ? take_bool(object, "simulated", &device->simulated) : GNF_OK;
}

static gnf_status take_fields(const json_t *object, struct gnf_record *record)
{
    int64_t format;
    GNF_TRY(take_whole(object, "format", 1, INT64_MAX, &format));
    if (format > GNF_RECORD_FORMAT)
        return gnf_fail(GNF_NOT_SUPPORTED, "format = %" PRId64 " is newer than this library, which reads %d",
                        format, GNF_RECORD_FORMAT);
    GNF_TRY(copy_text(object, "key", GNF_KEY_SIZE - 1, true, &record->key));
    GNF_TRY(copy_text(object, "problem", GNF_KEY_SIZE - 1, true, &record->problem));
    GNF_TRY(take_whole(object, "samples", 1, INT64_MAX, &record->samples));
    GNF_TRY(copy_text(object, "variant", VARIANT_MAX, true, &record->variant));
    GNF_TRY(take_source(object, record->source));
    GNF_TRY(take_device(object, &record->device));
    GNF_TRY(take_int(object, "nvrtc", 0, 1000000, &record->nvrtc));
    GNF_TRY(take_status(object, &record->status));
    GNF_TRY(take_bool(object, "complete", &record->complete));
    GNF_TRY(take_bool(object, "default", &record->is_default));
    GNF_TRY(take_number(object, "time_us", &record->time_us));
    GNF_TRY(take_number(object, "spread_us", &record->spread_us));
    GNF_TRY(take_int(object, "timings", 0, INT32_MAX, &record->timings));
    if (json_is_null(json_object_get(object, "max_error")))
        record->max_error = (double)__builtin_nanf("");
    else
        GNF_TRY(take_number(object, "max_error", &record->max_error));
    GNF_TRY(take_int(object, "clock_mhz", 0, 1000000, &record->clock_mhz));
    GNF_TRY(take_date(object, record->date));
    if (json_object_get(object, "gemm"))
        GNF_TRY(copy_text(object, "gemm", GNF_RECORD_GEMM_SIZE - 1, true, &record->gemm));
    return json_object_get(object, "error") ? copy_text(object, "error", ERROR_MAX, false, &record->error)
                                            : GNF_OK;
}

static gnf_status not_json(const json_error_t *error)
{
    char text[sizeof error->text];
    if (json_error_code(error) == json_error_out_of_memory)
        return no_memory();
    snprintf(text, sizeof text, "%s", error->text);
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return bad("the line", " is no JSON: %s", text);
}

gnf_status gnf_record_read(struct gnf_record *record, const char *line, size_t length)
{
    json_error_t error;
    memset(record, 0, sizeof *record);
    if (length > GNF_RECORD_LINE_MAX)
        return bad("the line", " has more than %d bytes", GNF_RECORD_LINE_MAX);
    json_t *object = gnf_json_read(line, length, &error);
    if (!object)
        return not_json(&error);
    gnf_status status =
        json_is_object(object) ? take_fields(object, record) : bad("the line", " is no JSON object");
    json_decref(object);
    if (status != GNF_OK)
        gnf_record_free(record);
    return status;
}

void gnf_record_free(struct gnf_record *record)
{
    free(record->key);
    free(record->problem);
    free(record->variant);
    free(record->gemm);
    free(record->error);
    memset(record, 0, sizeof *record);
}

/* ---- writing ---- */

/* Bytes of the UTF-8 character that starts here; 0 for what is none, or U+FFFF. */
static size_t character_length(const unsigned char *c)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = *c < 0x80 ? 1 : *c >> 5 == 6 ? 2 : *c >> 4 == 14 ? 3 : *c >> 3 == 30 ? 4 : 0;
    uint32_t point = length < 2 ? *c : *c & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (c[i] >> 6 != 2)
            return 0;
        point = point << 6 | (c[i] & 0x3fu);
    }
    if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) || point == 0xffff)
        return 0;
    return length;
}

/* At most `most` bytes. What a line cannot hold, or a reader would not take, is a space or a question mark.
 */
static void put_text(FILE *out, const char *field, const char *text, size_t most)
{
    fprintf(out, ",\"%s\":\"", field);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        size_t length = character_length(c);
        size_t wide = length ? length : 1;
        if (wide > most)
            break;
        most -= wide;
        if (*c == '"' || *c == '\\')
            fputc('\\', out);
        if (*c < ' ' || *c == 127)
            fputc(' ', out);
        else if (length)
            fwrite(c, 1, length, out);
        else
            fputc('?', out);
        c += wide;
    }
    fputc('"', out);
}

static void put_whole(FILE *out, const char *field, int64_t value)
{
    fprintf(out, ",\"%s\":%" PRId64, field, value);
}

static void put_bool(FILE *out, const char *field, bool value)
{
    fprintf(out, ",\"%s\":%s", field, value ? "true" : "false");
}

/* Times that are none are 0, an error that is none is null. */
static void put_number(FILE *out, const char *field, double value, const char *none)
{
    char text[32];
    float single = value > 0 && value < 3e38 ? (float)value : 0;
    gnf_number_format(single, text);
    fprintf(out, ",\"%s\":%s", field, value >= 0 && value < 3e38 ? text : none);
}

gnf_status gnf_record_write(const struct gnf_record *record, char **line)
{
    size_t size;
    *line = NULL;
    FILE *out = open_memstream(line, &size);
    if (!out)
        return no_memory();
    fprintf(out, "{\"format\":%d", GNF_RECORD_FORMAT);
    put_text(out, "key", record->key, GNF_KEY_SIZE - 1);
    put_text(out, "problem", record->problem, GNF_KEY_SIZE - 1);
    put_whole(out, "samples", record->samples);
    put_text(out, "variant", record->variant, VARIANT_MAX);
    put_text(out, "source", record->source, GNF_RECORD_SOURCE_SIZE - 1);
    put_text(out, "gpu", record->device.gpu[0] ? record->device.gpu : "?", GPU_MAX);
    put_whole(out, "capability", record->device.capability);
    put_whole(out, "multiprocessors", record->device.multiprocessors);
    put_whole(out, "memory", record->device.memory);
    put_whole(out, "l2_bytes", record->device.l2_bytes);
    if (record->device.simulated)
        put_bool(out, "simulated", true);
    put_whole(out, "nvrtc", record->nvrtc);
    put_text(out, "status", gnf_record_status_names[record->status], VARIANT_MAX);
    put_bool(out, "complete", record->complete);
    put_bool(out, "default", record->is_default);
    put_number(out, "time_us", record->time_us, "0");
    put_number(out, "spread_us", record->spread_us, "0");
    put_whole(out, "timings", record->timings);
    put_number(out, "max_error", record->max_error, "null");
    put_whole(out, "clock_mhz", record->clock_mhz);
    if (record->gemm && *record->gemm)
        put_text(out, "gemm", record->gemm, GNF_RECORD_GEMM_SIZE - 1);
    put_text(out, "date", record->date, DATE_LENGTH);
    if (record->error && *record->error)
        put_text(out, "error", record->error, ERROR_MAX);
    fputs("}\n", out);
    bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed)
        return GNF_OK;
    free(*line);
    *line = NULL;
    return no_memory();
}

/* ---- comparing ---- */

void gnf_record_device_of(const struct gnf_device *device, bool simulated, struct gnf_record_device *out)
{
    *out = (struct gnf_record_device){
        .capability = device->capability,
        .multiprocessors = device->multiprocessors,
        .memory = (int64_t)device->memory,
        .l2_bytes = device->l2_bytes,
        .simulated = simulated,
    };
    snprintf(out->gpu, sizeof out->gpu, "%s", device->name);
}

bool gnf_record_same_device(const struct gnf_record_device *a, const struct gnf_record_device *b)
{
    int64_t larger = a->memory > b->memory ? a->memory : b->memory;
    int64_t smaller = a->memory > b->memory ? b->memory : a->memory;
    return a->capability == b->capability && a->multiprocessors == b->multiprocessors &&
           a->l2_bytes == b->l2_bytes && a->simulated == b->simulated && larger - smaller <= larger / 20;
}

bool gnf_record_same(const struct gnf_record *a, const struct gnf_record *b)
{
    return a->samples == b->samples && a->nvrtc == b->nvrtc && !strcmp(a->variant, b->variant) &&
           !strcmp(a->source, b->source) && !strcmp(a->key, b->key) &&
           gnf_record_same_device(&a->device, &b->device);
}
