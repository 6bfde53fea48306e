#include "../gemm.h"
#include "../tuned.h"
#include "commands.h"
#include "output.h"
#include "session.h"
#include "simulate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Everything is looked for, and what is missing is said with the reason; only a device asked for by --device
 * must be there. */
static gnf_status find_driver(const struct session *session, json_t *report)
{
    struct gnf_driver cuda;
    char path[FILES_PATH_SIZE];
    const char *wanted = session->options.driver;
    gnf_status status = GNF_OK;
    if (session->args->sim) {
        status = simulate_find(path);
        wanted = path;
    }
    if (status == GNF_OK)
        status = gnf_driver_open(&cuda, wanted);
    json_t *devices = json_array();
    json_object_set_new(report, "devices", devices);
    if (status != GNF_OK) {
        json_object_set_new(report, "driver", json_pack("{s:b, s:s}", "ok", 0, "error", gnf_error_message()));
        return status;
    }
    int count = 0, version = 0;
    cuda.cuDriverGetVersion(&version);
    status = GNF_CU(&cuda, cuDeviceGetCount, (&count));
    json_object_set_new(report, "driver",
                        json_pack("{s:b, s:s, s:i}", "ok", 1, "path", cuda.path, "version", version));
    for (int i = 0; i < count; i++) {
        struct gnf_device device;
        if (gnf_device_query(&cuda, i, &device) != GNF_OK)
            continue;
        json_array_append_new(devices,
                              json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:I}", "device", i, "gpu",
                                        device.name, "capability", device.capability, "multiprocessors",
                                        device.multiprocessors, "shared_bytes", device.shared_block,
                                        "l2_bytes", device.l2_bytes, "memory", (json_int_t)device.memory));
    }
    if (status == GNF_OK && session->args->device_given && !session->args->sim &&
        session->args->device >= count)
        status = gnf_fail(GNF_NO_DEVICE, "--device: %d is not there (allowed: 0 to %d)",
                          session->args->device, count - 1);
    gnf_driver_close(&cuda);
    return status;
}

static void find_compiler(const struct session *session, json_t *report)
{
    struct gnf_compiler *compiler = NULL;
    const char *path = NULL;
    int version = 0;
    gnf_status status = gnf_compiler_create(&compiler, session->options.nvrtc);
    if (status == GNF_OK)
        status = gnf_compiler_version(compiler, &version, &path);
    json_object_set_new(
        report, "nvrtc",
        status == GNF_OK ? json_pack("{s:b, s:s, s:i}", "ok", 1, "path", path ? path : "", "version", version)
                         : json_pack("{s:b, s:s}", "ok", 0, "error", gnf_error_message()));
    if (compiler != NULL)
        gnf_compiler_destroy(compiler);
}

/* In the simulator it is in the driver's own file, as plans find it there. */
static void find_cublaslt(const struct session *session, json_t *report)
{
    struct gnf_cublaslt *cublaslt = NULL;
    const char *path = NULL, *driver = session->options.driver;
    char simulator[FILES_PATH_SIZE];
    int version = 0;
    if (session->args->sim)
        driver = simulate_find(simulator) == GNF_OK ? simulator : NULL;
    gnf_status status = gnf_cublaslt_create(&cublaslt, session->options.cublaslt,
                                            driver != NULL && simulate_is(driver) ? driver : NULL);
    if (status == GNF_OK)
        status = gnf_cublaslt_version(cublaslt, &version, &path);
    json_object_set_new(
        report, "cublaslt",
        status == GNF_OK ? json_pack("{s:b, s:s, s:i}", "ok", 1, "path", path ? path : "", "version", version)
                         : json_pack("{s:b, s:s}", "ok", 0, "error", gnf_error_message()));
    gnf_cublaslt_destroy(cublaslt, false);
}

static void find_cache(const struct session *session, json_t *report)
{
    struct gnf_cache *cache = NULL;
    struct gnf_cache_stats stats = {0};
    const struct gnf_options *options = &session->options;
    if (options->cache_dir == NULL) {
        json_object_set_new(
            report, "cache",
            json_pack("{s:b, s:s}", "ok", 0, "error", "no folder can be named (set GNFUSE_CACHE_DIR)"));
        return;
    }
    gnf_status status = gnf_cache_create(&cache, options->cache_dir, options->cache_limit, &options->log);
    if (status == GNF_OK)
        status = gnf_cache_stats(cache, &stats);
    json_object_set_new(report, "cache",
                        status == GNF_OK ? json_pack("{s:b, s:s, s:I, s:I}", "ok", 1, "folder",
                                                     options->cache_dir, "entries", (json_int_t)stats.entries,
                                                     "bytes", (json_int_t)stats.bytes)
                                         : json_pack("{s:b, s:s, s:s}", "ok", 0, "folder", options->cache_dir,
                                                     "error", gnf_error_message()));
    if (cache != NULL)
        gnf_cache_destroy(cache);
}

static void count_records(const struct session *session, json_t *report)
{
    struct gnf_tuned *tuned;
    const struct gnf_tuned_line *line;
    const char *path = session->options.db;
    int shipped = 0, users = 0;
    if (gnf_tuned_load(&tuned, path, &session->options.log) != GNF_OK)
        return;
    for (int i = 0; (line = gnf_tuned_get(tuned, i)) != NULL; i++)
        *(strcmp(line->file, "shipped") == 0 ? &shipped : &users) += 1;
    gnf_tuned_free(tuned);
    json_object_set_new(report, "database",
                        json_pack("{s:i, s:s?, s:b, s:i}", "shipped", shipped, "path", path, "exists",
                                  path != NULL && access(path, F_OK) == 0, "records", users));
}

static void list_packs(const struct session *session, json_t *report)
{
    json_t *packs = json_array();
    for (int i = session->packs.count - 1; i >= 0; i--) {
        const struct pack_file *file = &session->packs.at[i];
        const struct gnf_variant *variants;
        int count, keys = 0, total = 0;
        while (gnf_pack_entry(file->pack, keys, &variants, &count) != NULL) {
            keys++;
            total += count;
        }
        json_array_append_new(packs, json_pack("{s:s, s:i, s:i}", "name", gnf_pack_name(file->pack), "keys",
                                               keys, "variants", total));
    }
    json_object_set_new(report, "packs", packs);
}

/* What this program reads besides the library's. */
static const struct gnf_option_row program_rows[] = {
    {"GNFUSE_GEN", "the generator; default gnfuse-gen beside this program or on PATH"},
    {"GNFUSE_SIMKERNELS", "what compiles kernels for the simulator; default simkernels.py of the build"},
    {NULL, NULL},
};

static void list_environment(json_t *environment, const struct gnf_option_row *rows)
{
    for (const struct gnf_option_row *row = rows; row->variable != NULL; row++) {
        const char *value = getenv(row->variable);
        json_object_set_new(environment, row->variable, value != NULL ? json_string(value) : json_null());
    }
}

static void print_environment(const struct gnf_option_row *rows)
{
    for (const struct gnf_option_row *row = rows; row->variable != NULL; row++) {
        const char *value = getenv(row->variable);
        printf("%-20s %s%s%s\n", row->variable, row->meaning, value != NULL ? "; now: " : "",
               value != NULL ? value : "");
    }
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

static long long number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void print_databases(const json_t *database)
{
    const char *path = text_of(database, "path");
    printf("database shipped: %lld records\n", number_of(database, "shipped"));
    if (json_is_true(json_object_get(database, "exists")))
        printf("database %s: %lld records\n", path, number_of(database, "records"));
    else if (*path != '\0')
        printf("database %s: none\n", path);
    else
        printf("database none: no file can be named (set GNFUSE_DB)\n");
}

/* The report again, for people: the object is the one source of both forms. */
static void print_report(const json_t *report)
{
    size_t i;
    const json_t *row, *driver = json_object_get(report, "driver"), *nvrtc = json_object_get(report, "nvrtc"),
                       *cublaslt = json_object_get(report, "cublaslt"),
                       *cache = json_object_get(report, "cache");
    char size[32];
    printf("gnfuse   %s\n", text_of(report, "version"));
    if (json_is_true(json_object_get(driver, "ok")))
        printf("driver   %s, CUDA %lld.%lld\n", text_of(driver, "path"), number_of(driver, "version") / 1000,
               number_of(driver, "version") % 1000 / 10);
    else
        printf("driver   none: %s\n", text_of(driver, "error"));
    json_array_foreach(json_object_get(report, "devices"), i, row)
    {
        output_bytes(size, sizeof size, (double)number_of(row, "memory"));
        printf("device %lld %s, sm_%lld, %lld multiprocessors, %s\n", number_of(row, "device"),
               text_of(row, "gpu"), number_of(row, "capability"), number_of(row, "multiprocessors"), size);
    }
    if (json_is_true(json_object_get(nvrtc, "ok")))
        printf("NVRTC    %s, %lld.%lld\n", text_of(nvrtc, "path"), number_of(nvrtc, "version") / 1000,
               number_of(nvrtc, "version") % 1000 / 10);
    else
        printf("NVRTC    none: %s\n", text_of(nvrtc, "error"));
    if (json_is_true(json_object_get(cublaslt, "ok")))
        printf("cuBLASLt %s, %lld.%lld.%lld\n", text_of(cublaslt, "path"),
               number_of(cublaslt, "version") / 10000, number_of(cublaslt, "version") / 100 % 100,
               number_of(cublaslt, "version") % 100);
    else
        printf("cuBLASLt none: %s\n", text_of(cublaslt, "error"));
    output_bytes(size, sizeof size, (double)number_of(cache, "bytes"));
    if (json_is_true(json_object_get(cache, "ok")))
        printf("cache    %s: %lld kernels, %s\n", text_of(cache, "folder"), number_of(cache, "entries"),
               size);
    else
        printf("cache    none: %s\n", text_of(cache, "error"));
    json_array_foreach(json_object_get(report, "packs"), i, row)
    {
        printf("pack     %s: %lld problems and chains, %lld variants\n", text_of(row, "name"),
               number_of(row, "keys"), number_of(row, "variants"));
    }
    print_databases(json_object_get(report, "database"));
    printf("\n");
    print_environment(gnf_option_rows);
    print_environment(program_rows);
}

gnf_status command_info(const struct args *args, int *exit_status)
{
    (void)exit_status;
    struct session session;
    GNF_TRY(session_open_packs(&session, args));
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", gnf_version() / 10000, gnf_version() / 100 % 100,
             gnf_version() % 100);
    json_t *report = json_pack("{s:s}", "version", version);
    gnf_status driver_status = find_driver(&session, report);
    char driver_message[1024];
    snprintf(driver_message, sizeof driver_message, "%s", gnf_error_message());
    find_compiler(&session, report);
    find_cublaslt(&session, report);
    find_cache(&session, report);
    list_packs(&session, report);
    count_records(&session, report);
    json_t *environment = json_object();
    list_environment(environment, gnf_option_rows);
    list_environment(environment, program_rows);
    json_object_set_new(report, "environment", environment);
    bool failed = driver_status != GNF_OK && args->device_given;
    gnf_status status = GNF_OK;
    if (failed)
        status = gnf_fail(driver_status, "%s", driver_message);
    else if (args->json)
        status = output_json(json_incref(report));
    else
        print_report(report);
    json_decref(report);
    session_close(&session);
    return status;
}
