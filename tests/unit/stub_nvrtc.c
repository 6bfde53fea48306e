/* A stand-in for NVRTC, for test_compile and anything else that needs an NVRTC with one certain property:
 *   STUB_NVRTC_ARCHS=50,75,80     the targets it lists (this is the default)
 *   STUB_NVRTC_VERSION=11020      major * 1000 + minor * 10 (default 12040)
 *   STUB_NVRTC_FAIL=builtins      a compile fails as where libnvrtc-builtins is missing; "log" with an empty
 * log STUB_OLD builds one from before 11.2, which cannot list its targets. A compile gives, as cubin or PTX,
 * a text with the options and the source. */
#define _GNU_SOURCE 1 /* strdup */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STUB __attribute__((visibility("default")))

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, COMPILATION = 6, BUILTINS = 7 };

struct program {
    char *source, *image;
    const char *log;
};

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value ? value : otherwise;
}

STUB const char *nvrtcGetErrorString(int result)
{
    return result == BUILTINS      ? "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"
           : result == COMPILATION ? "NVRTC_ERROR_COMPILATION"
                                   : "NVRTC_ERROR unknown";
}

STUB int nvrtcVersion(int *major, int *minor)
{
    int version = atoi(setting("STUB_NVRTC_VERSION", "12040"));

    *major = version / 1000;
    *minor = version % 1000 / 10;
    return SUCCESS;
}

#ifndef STUB_OLD
static int read_archs(int *archs)
{
    const char *text = setting("STUB_NVRTC_ARCHS", "50,75,80");
    int count = 0;

    for (; *text; count++) {
        char *end;
        long arch = strtol(text, &end, 10);
        if (archs)
            archs[count] = (int)arch;
        text = *end ? end + 1 : end;
    }
    return count;
}

STUB int nvrtcGetNumSupportedArchs(int *count)
{
    *count = read_archs(NULL);
    return SUCCESS;
}

STUB int nvrtcGetSupportedArchs(int *archs)
{
    read_archs(archs);
    return SUCCESS;
}
#endif

STUB int nvrtcCreateProgram(struct program **program, const char *source, const char *name, int header_count,
                            const char *const *headers, const char *const *include_names)
{
    if (!name || header_count != 0 || headers || include_names)
        return INVALID_INPUT;
    *program = calloc(1, sizeof **program);
    if (!*program)
        return OUT_OF_MEMORY;
    (*program)->source = strdup(source);
    (*program)->log = "";
    return SUCCESS;
}

STUB int nvrtcDestroyProgram(struct program **program)
{
    free((*program)->source);
    free((*program)->image);
    free(*program);
    *program = NULL;
    return SUCCESS;
}

STUB int nvrtcCompileProgram(struct program *program, int count, const char *const *options)
{
    const char *failure = setting("STUB_NVRTC_FAIL", "");
    size_t size = strlen(program->source) + 1;

    if (strcmp(failure, "builtins") == 0)
        program->log = "nvrtc: error: failed to open libnvrtc-builtins.so.12.4.\n"
                       "  Make sure that libnvrtc-builtins.so.12.4 is installed correctly.";
    if (*failure)
        return *program->log ? BUILTINS : COMPILATION;
    for (int i = 0; i < count; i++)
        size += strlen(options[i]) + 1;
    program->image = calloc(1, size);
    if (!program->image)
        return OUT_OF_MEMORY;
    for (int i = 0; i < count; i++) {
        strcat(program->image, options[i]);
        strcat(program->image, " ");
    }
    strcat(program->image, program->source);
    return SUCCESS;
}

STUB int nvrtcGetCUBINSize(struct program *program, size_t *size)
{
    *size = program->image && strstr(program->image, "=sm_") ? strlen(program->image) + 1 : 0;
    return SUCCESS;
}

STUB int nvrtcGetCUBIN(struct program *program, char *image)
{
    strcpy(image, program->image);
    return SUCCESS;
}

STUB int nvrtcGetPTXSize(struct program *program, size_t *size)
{
    *size = program->image ? strlen(program->image) + 1 : 0;
    return SUCCESS;
}

STUB int nvrtcGetPTX(struct program *program, char *image)
{
    strcpy(image, program->image);
    return SUCCESS;
}

STUB int nvrtcGetProgramLogSize(struct program *program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return SUCCESS;
}

STUB int nvrtcGetProgramLog(struct program *program, char *log)
{
    strcpy(log, program->log);
    return SUCCESS;
}
