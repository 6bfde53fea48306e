#include "commands.h"

#include "../image.h"
#include "elf.h"
#include "output.h"
#include "session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct compiling {
    struct session *session;
    const struct args *args;
    struct gnf_compiler *compiler;
    int nvrtc; /* its version */
    struct gnf_cache *cache;
    struct progress progress;
    json_t *rows;
    int spilling; /* variants that spill */
};

static gnf_status write_cubin(const struct compiling *compiling, const char *entry, const char *arch,
                              const void *image, size_t size)
{
    char name[512], path[FILES_PATH_SIZE];
    snprintf(name, sizeof name, "%s.%s.cubin", entry, arch);
    GNF_TRY(files_join(path, compiling->args->output_dir, name));
    return files_write(path, image, size);
}

static gnf_status compile_kernel(struct compiling *compiling, const struct gnf_pack *pack,
                                 const struct gnf_kernel *kernel, const char *arch,
                                 struct elf_resources *resources)
{
    struct gnf_target target = {.nvrtc = compiling->nvrtc};
    struct gnf_image_job job = {
        .cache = compiling->cache, /* variants share kernels */
        .compiler = compiling->compiler,
        .log = &compiling->session->options.log,
        .entry = kernel->entry,
        .target = &target,
        .jit = true,
        .number = 1,
        .total = 1,
    };
    char *source = NULL, *key = NULL;
    void *image = NULL;
    size_t size = 0;
    snprintf(target.name, sizeof target.name, "%s", arch);
    if (kernel->exact)
        GNF_TRY(gnf_compiler_exact_target(target.name, kernel->entry));
    GNF_TRY(gnf_pack_source(pack, kernel, &source));
    job.source = source;
    gnf_status status = gnf_image_key(&target, source, &key);
    if (status == GNF_OK)
        status = gnf_image_fetch(&job, key, &image, &size);
    free(key);
    free(source);
    if (status == GNF_OK)
        status = elf_read_resources(image, size, kernel->entry, resources);
    if (status == GNF_OK && compiling->args->output_dir != NULL)
        status = write_cubin(compiling, kernel->entry, target.name, image, size);
    free(image);
    return status;
}

/* A row for the variant: the largest of each over its kernels. */
static gnf_status compile_variant(struct compiling *compiling, const struct pack_variant *one,
                                  const char *arch)
{
    const struct gnf_variant *variant = one->variant;
    int registers = 0, spills = 0, shared = 0;
    for (int i = 0; i < variant->kernel_count; i++) {
        struct elf_resources resources;
        GNF_TRY(compile_kernel(compiling, one->file->pack, &variant->kernel[i], arch, &resources));
        registers = resources.registers > registers ? resources.registers : registers;
        spills = resources.stack_bytes > spills ? resources.stack_bytes : spills;
        shared = variant->kernel[i].shared_bytes > shared ? variant->kernel[i].shared_bytes : shared;
    }
    compiling->spilling += spills > 0;
    json_array_append_new(compiling->rows,
                          json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "name", variant->name, "arch", arch,
                                    "kernels", variant->kernel_count, "registers", registers, "spills",
                                    spills, "shared_bytes", shared));
    return GNF_OK;
}

static bool is_for(const struct gnf_variant *variant, int capability)
{
    return variant->exact ? capability == variant->capability : capability >= variant->capability;
}

static gnf_status compile_all(struct compiling *compiling, const struct pack_variant *list, int count)
{
    const struct args_list *archs = &compiling->args->archs;
    progress_begin(&compiling->progress, archs->count * count, compiling->args->quiet);
    for (int a = 0; a < archs->count; a++) {
        int capability = atoi(archs->at[a] + 3); /* digits, the parser made sure */
        size_t rows = json_array_size(compiling->rows);
        for (int i = 0; i < count; i++) {
            progress_step(&compiling->progress, "compiling %s for %s", list[i].variant->name, archs->at[a]);
            if (!is_for(list[i].variant, capability))
                continue;
            gnf_status status = compile_variant(compiling, &list[i], archs->at[a]);
            if (status != GNF_OK) {
                progress_clear(&compiling->progress);
                return gnf_fail_more(status, "; while compiling %s for %s", list[i].variant->name,
                                     archs->at[a]);
            }
        }
        if (json_array_size(compiling->rows) == rows) {
            progress_clear(&compiling->progress);
            return gnf_fail(GNF_INVALID_ARGUMENT, "--arch: no variant is for %s (allowed: sm_%d%s)",
                            archs->at[a], list[0].variant->capability,
                            list[0].variant->exact ? " alone" : " and later");
        }
    }
    progress_clear(&compiling->progress);
    return GNF_OK;
}

static void print_table(const struct compiling *compiling)
{
    size_t i;
    const json_t *row;
    printf("%-36s %-8s %7s %9s %7s %8s\n", "variant", "arch", "kernels", "registers", "spills", "shared B");
    json_array_foreach(compiling->rows, i, row)
    {
        printf("%-36s %-8s %7d %9d %7d %8d\n", json_string_value(json_object_get(row, "name")),
               json_string_value(json_object_get(row, "arch")),
               (int)json_integer_value(json_object_get(row, "kernels")),
               (int)json_integer_value(json_object_get(row, "registers")),
               (int)json_integer_value(json_object_get(row, "spills")),
               (int)json_integer_value(json_object_get(row, "shared_bytes")));
    }
    printf("%zu compiled, %d with spills\n", json_array_size(compiling->rows), compiling->spilling);
}

static gnf_status run(struct compiling *compiling, const struct gnf_problem *problem)
{
    struct session *session = compiling->session;
    struct pack_variant *list = NULL;
    const struct gnf_options *options = &session->options;
    int count = 0;
    const char *path;
    GNF_TRY(gnf_compiler_create(&compiling->compiler, options->nvrtc));
    GNF_TRY(gnf_compiler_version(compiling->compiler, &compiling->nvrtc, &path));
    GNF_TRY(gnf_cache_create(&compiling->cache, options->cache_dir, options->cache_limit, &options->log));
    GNF_TRY(packs_require(&session->packs, compiling->args, options, problem));
    GNF_TRY(packs_variants(&session->packs, problem, compiling->args->variant, &list, &count));
    if (compiling->args->output_dir != NULL) /* last: nothing is made for a call that cannot do its work */
        GNF_TRY(files_make_folder(compiling->args->output_dir));
    gnf_status status = compile_all(compiling, list, count);
    free(list);
    GNF_TRY(status);
    if (compiling->args->json)
        return output_json(json_pack("{s:s, s:i, s:O}", "problem", problem->text, "nvrtc", compiling->nvrtc,
                                     "variants", compiling->rows));
    print_table(compiling);
    return GNF_OK;
}

gnf_status command_compile(const struct args *args, int *exit_status)
{
    (void)exit_status;
    struct gnf_problem problem;
    struct session session;
    if (args->archs.count == 0)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--arch is missing (allowed: a list like sm_80,sm_90)");
    GNF_TRY(gnf_problem_parse(args->operand, &problem));
    GNF_TRY(session_open_packs(&session, args));
    struct compiling compiling = {.session = &session, .args = args, .rows = json_array()};
    gnf_status status = run(&compiling, &problem);
    json_decref(compiling.rows);
    gnf_cache_destroy(compiling.cache);
    if (compiling.compiler != NULL)
        gnf_compiler_destroy(compiling.compiler);
    session_close(&session);
    return status;
}
