#include "simulate.h"

#include "generate.h"
#include "interrupt.h"
#include "programs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the executable's folder or absolute; meson.build says where. */
#ifndef GNF_SIMKERNELS
#define GNF_SIMKERNELS "simkernels.py"
#endif

bool simulate_is(const char *driver)
{
    const char *slash = driver != NULL ? strrchr(driver, '/') : NULL;
    return driver != NULL && strstr(slash != NULL ? slash : driver, "cudasim") != NULL;
}

gnf_status simulate_find(char path[FILES_PATH_SIZE])
{
    /* beside this program, in the build's folder, installed */
    static const char *const places[] = {"tests/sim/libgnfuse_cudasim.so",
                                         "../tests/sim/libgnfuse_cudasim.so", "../lib/libgnfuse_cudasim.so"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (programs_find(path, "GNFUSE_CUDA_DRIVER", places[i], "libgnfuse_cudasim.so"))
            return GNF_OK;
    const char *given = getenv("GNFUSE_CUDA_DRIVER");
    if (given != NULL && *given != '\0')
        return gnf_fail(GNF_NO_DRIVER, "--device sim: GNFUSE_CUDA_DRIVER is %s, which cannot be read", given);
    return gnf_fail(
        GNF_NO_DRIVER,
        "--device sim: libgnfuse_cudasim.so is neither beside this program nor in tests/sim"
        " or ../lib from there (a build folder has it, in tests/sim: GNFUSE_CUDA_DRIVER names it)");
}

/* A kernel once, however many variants share it. */
struct kernel_source {
    const char *entry;
    char *text;
};
struct kernel_sources {
    int count;
    struct kernel_source at[PROGRAMS_MAX_WORDS - 4];
};

static bool has_entry(const struct kernel_sources *sources, const char *entry)
{
    for (int i = 0; i < sources->count; i++)
        if (strcmp(sources->at[i].entry, entry) == 0)
            return true;
    return false;
}

static gnf_status collect(const struct packs *packs, const struct gnf_problem *problem,
                          struct kernel_sources *sources)
{
    struct pack_variant *list = NULL;
    int count = 0;
    GNF_TRY(packs_variants(packs, problem, NULL, &list, &count));
    gnf_status status = GNF_OK;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < list[i].variant->kernel_count && status == GNF_OK; k++) {
            const struct gnf_kernel *kernel = &list[i].variant->kernel[k];
            struct kernel_source *source = &sources->at[sources->count];
            if (has_entry(sources, kernel->entry) ||
                sources->count == (int)(sizeof sources->at / sizeof sources->at[0]))
                continue;
            source->entry = kernel->entry;
            status = gnf_pack_source(list[i].file->pack, kernel, &source->text);
            sources->count += status == GNF_OK;
        }
    free(list);
    return status;
}

/* Named by all that goes in: the sources, and what they are compiled against, which stands beside the
 * program. */
static gnf_status library_name(const struct kernel_sources *sources, const char *program, char name[64])
{
    char folder[FILES_PATH_SIZE];
    XXH3_state_t *hash = XXH3_createState();
    if (hash == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for a hash");
    XXH3_128bits_reset(hash);
    for (int i = 0; i < sources->count; i++)
        XXH3_128bits_update(hash, sources->at[i].text, strlen(sources->at[i].text) + 1);
    snprintf(folder, sizeof folder, "%s", program);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    programs_identify_folder(hash, folder);
    XXH128_hash_t digest = XXH3_128bits_digest(hash);
    XXH3_freeState(hash);
    snprintf(name, 64, "%016" PRIx64 "%016" PRIx64 ".so", (uint64_t)digest.high64, (uint64_t)digest.low64);
    return GNF_OK;
}

/* One file a kernel in a folder of its own, for the time of the compile. */
static gnf_status compile(const struct kernel_sources *sources, const char *program, const char *library,
                          const char *announce)
{
    const char *arguments[PROGRAMS_MAX_WORDS] = {"simkernels.py", "-o", GENERATE_OUTPUT};
    int words = 3;
    char folder[FILES_PATH_SIZE], name[512];
    int length = snprintf(folder, sizeof folder, "%s-XXXXXX", library);
    interrupt_hold(); /* the folder goes whatever happens */
    if (length >= FILES_PATH_SIZE || mkdtemp(folder) == NULL) {
        interrupt_release();
        return gnf_fail(GNF_IO, "%s: no folder can be made beside it", library);
    }
    char(*paths)[FILES_PATH_SIZE] = malloc((size_t)sources->count * sizeof *paths);
    gnf_status status = paths != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no memory for names");
    for (int i = 0; i < sources->count && status == GNF_OK; i++) {
        snprintf(name, sizeof name, "%s.cu", sources->at[i].entry);
        status = files_join(paths[i], folder, name);
        if (status == GNF_OK)
            status = files_write(paths[i], sources->at[i].text, strlen(sources->at[i].text));
        arguments[words++] = paths[i];
    }
    arguments[words] = NULL;
    if (status == GNF_OK)
        status = generate_file(library, program, arguments, announce, NULL, NULL);
    free(paths);
    files_remove_folder(folder);
    interrupt_release();
    return status;
}

gnf_status simulate_prepare(struct packs *packs, const struct args *args, const struct gnf_options *options,
                            const struct gnf_problem *problem)
{
    const char *given = getenv("CUDASIM_KERNELS");
    char program[FILES_PATH_SIZE], library[FILES_PATH_SIZE], name[64], announce[128];
    struct kernel_sources sources = {0};
    int count;
    /* Without kernels planning says why, better than could be said here. */
    if ((given != NULL && *given != '\0') || (packs_find(packs, problem->key, &count, NULL) == NULL &&
                                              packs_find(packs, problem->chain, &count, NULL) == NULL))
        return GNF_OK;
    if (!programs_find(program, "GNFUSE_SIMKERNELS", GNF_SIMKERNELS, "simkernels.py"))
        return gnf_fail(GNF_NO_DRIVER,
                        "--device sim: simkernels.py, which compiles kernels for the host, is not found "
                        "(set GNFUSE_SIMKERNELS, or CUDASIM_KERNELS to kernels compiled before)");
    if (args->variant != NULL) { /* a wrong name is told before the long work */
        struct pack_variant *named;
        GNF_TRY(packs_variants(packs, problem, args->variant, &named, &count));
        free(named);
    }
    gnf_status status = collect(packs, problem, &sources);
    if (status == GNF_OK)
        status = library_name(&sources, program, name);
    if (status == GNF_OK)
        status = generate_place(options->cache_dir, name, packs->temporary, library);
    snprintf(announce, sizeof announce, "compiling %d kernels for the simulator", sources.count);
    if (status == GNF_OK && access(library, R_OK) != 0)
        status = compile(&sources, program, library, args->quiet ? NULL : announce);
    for (int i = 0; i < sources.count; i++)
        free(sources.at[i].text);
    GNF_TRY(status);
    if (setenv("CUDASIM_KERNELS", library, 1) != 0)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for CUDASIM_KERNELS");
    return GNF_OK;
}
