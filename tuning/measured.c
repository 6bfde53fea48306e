#include "measured.h"

#include "../runtime/cli/output.h"
#include "worker.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

double measured_number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

json_t *measured_write(const struct measured *measured)
{
    return json_pack("{s:i, s:o, s:i, s:i, s:i, s:o, s:o, s:o, s:s}", "record", (int)measured->status,
                     "error", worker_words(measured->error), "registers", measured->registers, "spills",
                     measured->spills, "shared_bytes", measured->shared_bytes, "occupancy",
                     output_number(measured->occupancy), "compile_ms", output_number(measured->compile_ms),
                     "max_error", output_number(measured->max_error), "gemm", measured->gemm);
}

bool measured_read(const json_t *object, struct measured *measured)
{
    json_int_t status = json_integer_value(json_object_get(object, "record"));
    const char *error = json_string_value(json_object_get(object, "error"));
    const char *gemm = json_string_value(json_object_get(object, "gemm"));
    if (error == NULL || status < 0 || status >= GNF_RECORD_STATUS_COUNT)
        return false;
    *measured = (struct measured){
        .status = (enum gnf_record_status)status,
        .registers = (int)json_integer_value(json_object_get(object, "registers")),
        .spills = (int)json_integer_value(json_object_get(object, "spills")),
        .shared_bytes = (int)json_integer_value(json_object_get(object, "shared_bytes")),
        .occupancy = measured_number(json_object_get(object, "occupancy")),
        .compile_ms = measured_number(json_object_get(object, "compile_ms")),
        .max_error = measured_number(json_object_get(object, "max_error")),
    };
    snprintf(measured->error, sizeof measured->error, "%s", error);
    snprintf(measured->gemm, sizeof measured->gemm, "%s", gemm != NULL ? gemm : "");
    return true;
}

void measured_fail(struct measured *measured, enum gnf_record_status status, const char *text)
{
    *measured = (struct measured){.status = status, .max_error = NAN};
    snprintf(measured->error, sizeof measured->error, "%s", text);
    for (char *c = measured->error; *c != '\0'; c++)
        if (*c == '\n' || *c == '\r' || *c == '\t')
            *c = ' ';
    for (size_t length = strlen(measured->error); length > 0 && measured->error[length - 1] == ' ';)
        measured->error[--length] = '\0';
}
