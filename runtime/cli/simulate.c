#include "simulate.h"

#include "generate.h"
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
    return gnf_fail(GNF_NO_DRIVER,
                    "--device sim: libgnfuse_cudasim.so is neither beside this program nor in tests/sim"
                    " or ../lib from there (set GNFUSE_CUDA_DRIVER)");
}

/* The pack as a file with a name of its content: the embedded one is written out first. */
static gnf_status pack_as_file(const struct pack_file *file, const char *folder, char path[FILES_PATH_SIZE],
                               XXH3_state_t *hash)
{
    if (file->path != NULL) {
        programs_identify_file(hash, file->path);
        snprintf(path, FILES_PATH_SIZE, "%s", file->path);
        return GNF_OK;
    }
    char name[64];
    XXH3_128bits_update(hash, gnf_embedded_pack, gnf_embedded_pack_size);
    snprintf(name, sizeof name, "embedded-%016" PRIx64 ".gnfpack",
             (uint64_t)XXH3_64bits(gnf_embedded_pack, gnf_embedded_pack_size));
    GNF_TRY(files_join(path, folder, name));
    if (access(path, R_OK) == 0)
        return GNF_OK;
    return files_write(path, gnf_embedded_pack, gnf_embedded_pack_size);
}

static gnf_status host_kernels(const struct pack_file *file, const struct args *args, const char *folder,
                               char library[FILES_PATH_SIZE])
{
    char program[FILES_PATH_SIZE], pack[FILES_PATH_SIZE], source[FILES_PATH_SIZE], name[64];
    if (!programs_find(program, "GNFUSE_SIMKERNELS", GNF_SIMKERNELS, "simkernels.py"))
        return gnf_fail(GNF_NO_DRIVER,
                        "--device sim: simkernels.py, which compiles kernels for the host, is not found "
                        "(set GNFUSE_SIMKERNELS, or CUDASIM_KERNELS to kernels compiled before)");
    XXH3_state_t *hash = XXH3_createState();
    if (hash == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for a hash");
    XXH3_128bits_reset(hash);
    gnf_status status = pack_as_file(file, folder, pack, hash);
    /* What the kernels are compiled against stands beside the program. */
    snprintf(source, sizeof source, "%s", program);
    char *slash = strrchr(source, '/');
    if (slash != NULL) {
        *slash = '\0';
        programs_identify_folder(hash, source);
    }
    XXH128_hash_t digest = XXH3_128bits_digest(hash);
    XXH3_freeState(hash);
    GNF_TRY(status);
    snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64 ".so", (uint64_t)digest.high64,
             (uint64_t)digest.low64);
    GNF_TRY(files_join(library, folder, name));
    char announce[FILES_PATH_SIZE + 64];
    snprintf(announce, sizeof announce, "compiling the kernels of %s for the simulator",
             gnf_pack_name(file->pack));
    const char *const arguments[] = {"simkernels.py", pack, "-o", GENERATE_OUTPUT, NULL};
    return generate_file(library, program, arguments, args->quiet ? NULL : announce, NULL, NULL);
}

gnf_status simulate_prepare(const struct packs *packs, const struct args *args,
                            const struct gnf_options *options, const struct gnf_problem *problem)
{
    const char *given = getenv("CUDASIM_KERNELS");
    if (problem == NULL || (given != NULL && *given != '\0'))
        return GNF_OK;
    const char *const keys[] = {problem->key, problem->chain};
    const struct pack_file *done = NULL;
    char folder[FILES_PATH_SIZE], libraries[2 * FILES_PATH_SIZE] = "";
    GNF_TRY(generate_folder(options->cache_dir, folder));
    for (int i = 0; i < 2; i++) {
        const struct pack_file *file;
        char library[FILES_PATH_SIZE];
        int count;
        if (packs_find(packs, keys[i], &count, &file) == NULL || file == done)
            continue;
        GNF_TRY(host_kernels(file, args, folder, library));
        size_t used = strlen(libraries);
        snprintf(libraries + used, sizeof libraries - used, "%s%s", used ? ":" : "", library);
        done = file;
    }
    if (setenv("CUDASIM_KERNELS", libraries, 1) != 0)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for CUDASIM_KERNELS");
    return GNF_OK;
}
