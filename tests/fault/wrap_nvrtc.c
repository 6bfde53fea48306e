/* The real NVRTC with one property changed, for test_compiler_failures.py and test_tune_failures.py:
 *   WRAP_NVRTC=libnvrtc.so.13   the library to ask (required)
 *   WRAP_NVRTC_ARCHS=75,80      the targets it lists
 *   WRAP_NVRTC_VERSION=14000    major * 1000 + minor * 10
 *   WRAP_NVRTC_SLOW=TEXT        a source with this text takes a minute longer
 * What is not wrapped is found in the real one: the wrapper is linked against it. */
#define _GNU_SOURCE 1 /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INTERNAL = 11 };

static int read_archs(const char *text, int *archs)
{
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

static void *real(const char *name)
{
    static void *library;

    if (!library)
        library = dlopen(getenv("WRAP_NVRTC"), RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

int nvrtcVersion(int *major, int *minor)
{
    const char *text = getenv("WRAP_NVRTC_VERSION");
    int (*ask)(int *, int *) = NULL;

    *(void **)&ask = real("nvrtcVersion");
    if (!ask)
        return INTERNAL;
    if (!text)
        return ask(major, minor);
    *major = atoi(text) / 1000;
    *minor = atoi(text) % 1000 / 10;
    return SUCCESS;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    const char *text = getenv("WRAP_NVRTC_ARCHS");
    int (*ask)(int *) = NULL;

    *(void **)&ask = real("nvrtcGetNumSupportedArchs");
    if (!ask)
        return INTERNAL;
    if (!text)
        return ask(count);
    *count = read_archs(text, NULL);
    return SUCCESS;
}

int nvrtcGetSupportedArchs(int *archs)
{
    const char *text = getenv("WRAP_NVRTC_ARCHS");
    int (*ask)(int *) = NULL;

    *(void **)&ask = real("nvrtcGetSupportedArchs");
    if (!ask)
        return INTERNAL;
    if (!text)
        return ask(archs);
    read_archs(text, archs);
    return SUCCESS;
}

int nvrtcCreateProgram(void **program, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names)
{
    const char *text = getenv("WRAP_NVRTC_SLOW");
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *) = NULL;

    *(void **)&create = real("nvrtcCreateProgram");
    if (!create)
        return INTERNAL;
    if (text && *text && strstr(source, text))
        sleep(60);
    return create(program, source, name, count, headers, names);
}
