#include "../monotonic.h"
#include "../plan.h"
#include "bench.h"
#include "bindings.h"
#include "commands.h"
#include "compare.h"
#include "npy.h"
#include "output.h"
#include "reference.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct running {
    const struct args *args;
    struct gnf_problem problem;
    struct session session;
    struct tensors tensors;
    gnf_plan *plan;
    double plan_us; /* of gnf_plan_create */
    int compiles;   /* kernels that it compiled */
    void *y;        /* logical C order */
    struct comparison comparison;
    struct bench_result bench;
    bool timed;
};

/* N of a problem that leaves it open is in x's file. */
static gnf_status find_samples(const struct running *running, int64_t *samples)
{
    const struct args_list *inputs = &running->args->inputs;
    *samples = running->problem.samples;
    if (*samples >= 0)
        return GNF_OK;
    for (int i = 0; i < inputs->count; i++) {
        struct npy_array array;
        if (strncmp(inputs->at[i], "x=", 2) != 0)
            continue;
        GNF_TRY(npy_read_header(inputs->at[i] + 2, &array));
        *samples = array.rank > 0 ? array.shape[0] : 1;
        return GNF_OK;
    }
    return gnf_fail(GNF_INVALID_ARGUMENT,
                    "the problem's N is * (allowed: a number there, or --in x=FILE.npy)");
}

static gnf_status make_tensors(struct running *running)
{
    const struct args_list *inputs = &running->args->inputs;
    int64_t samples = 0;
    GNF_TRY(find_samples(running, &samples));
    GNF_TRY(tensors_create(&running->tensors, &running->problem, samples));
    if (inputs->count == 0) {
        const struct tensors_recipe uniform = {.affine = true};
        return tensors_random(&running->tensors, &uniform, running->args->seed);
    }
    for (int i = 0; i < inputs->count; i++) {
        char name[64];
        const char *equals = strchr(inputs->at[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - inputs->at[i]), inputs->at[i]);
        GNF_TRY(tensors_load(&running->tensors, name, equals + 1));
    }
    return tensors_require(&running->tensors);
}

static gnf_status make_plan(struct running *running)
{
    struct session *session = &running->session;
    const gnf_plan_options options = {
        .size = sizeof options,
        .samples = running->problem.samples < 0 ? running->tensors.samples : 0,
        .variant = running->args->variant,
        .prepared = !running->args->each_weight,
        .stream = session->stream,
    };
    int before = session->compiles;
    double start = 1e6 * gnf_now();
    GNF_TRY(gnf_plan_create(&running->plan, session->context, running->problem.text, &options));
    running->plan_us = 1e6 * gnf_now() - start;
    running->compiles = session->compiles - before;
    return GNF_OK;
}

/* One execution under guards; y comes back in logical order. */
static gnf_status execute(struct running *running)
{
    struct tensors *tensors = &running->tensors;
    const struct gnf_problem *problem = &running->problem;
    size_t bytes = (size_t)tensors->y_elements * gnf_dtype_size(problem->dtype);
    struct bindings bindings;
    char fault[256] = "";
    running->y = malloc(bytes > 0 ? bytes : 1);
    void *memory = malloc(bytes > 0 ? bytes : 1);
    gnf_status status = running->y != NULL && memory != NULL
                            ? GNF_OK
                            : gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for y's %zu bytes", bytes);
    if (status == GNF_OK)
        status = bindings_create(&bindings, &running->session, tensors, false, -1);
    if (status == GNF_OK) {
        status = bindings_run(&bindings, running->plan);
        if (status == GNF_OK)
            status = bindings_result(&bindings, memory);
        if (status == GNF_OK)
            status = bindings_inspect(&bindings, false, fault, sizeof fault);
        bindings_free(&bindings);
    }
    if (status == GNF_OK)
        tensors_from_memory(tensors, memory, running->y);
    free(memory);
    if (status == GNF_OK && fault[0] != '\0')
        return gnf_fail(GNF_DRIVER_ERROR, "the kernel %s", fault);
    return status;
}

static gnf_status check(struct running *running)
{
    int64_t elements = running->tensors.y_elements;
    double *reference = malloc((size_t)(elements > 0 ? elements : 1) * sizeof *reference);
    if (reference == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for a reference of %lld doubles",
                        (long long)elements);
    gnf_status status = reference_run(&running->tensors, reference);
    if (status == GNF_OK)
        status = compare_run(&running->tensors, running->y, reference, &running->comparison);
    free(reference);
    return status;
}

static gnf_status write_output(struct running *running)
{
    int64_t shape[2 + GNF_MAX_SPATIAL];
    int rank = tensors_y_shape(&running->tensors, shape);
    return npy_write(running->args->out, running->problem.dtype, rank, shape, running->y);
}

/* Bytes a thread that did not fit in registers, the most of the plan's kernels. */
static int spills_of(const struct running *running)
{
    const struct gnf_choice *choice = &running->plan->choice;
    int most = 0;
    for (int i = 0; i < choice->variant->kernel_count && !running->plan->empty; i++) {
        int bytes = 0;
        running->session.context->driver.cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                                            choice->launch[i].function);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static gnf_status print_json(const struct running *running, const gnf_plan_info *info)
{
    const struct bench_result *bench = &running->bench;
    json_t *report = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:i}", "problem",
        info->problem, "device", running->session.device, "gpu", running->session.context->device.name,
        "variant", info->variant, "fallback", info->fallback, "match", info->match, "samples",
        (json_int_t)running->tensors.samples, "kernels", (int)info->kernels, "registers", info->registers,
        "spills", spills_of(running), "shared_bytes", info->shared_bytes, "workspace",
        (json_int_t)info->workspace_size, "bytes", (json_int_t)tensors_bytes(&running->tensors, false),
        "plan_us", running->plan_us, "compiled", running->compiles);
    if (running->problem.inputs > 0) {
        json_object_set_new(report, "flop",
                            json_real(tensors_flop(&running->problem, running->tensors.samples)));
        json_object_set_new(report, "prepared", json_integer((json_int_t)info->prepared_size));
    }
    if (running->args->inputs.count == 0)
        json_object_set_new(report, "seed", json_integer((json_int_t)running->args->seed));
    if (running->args->check) {
        json_object_set_new(report, "ok", json_boolean(running->comparison.ok));
        json_object_set_new(report, "max_error", output_number(running->comparison.max_error));
        json_object_set_new(report, "tolerance", output_number(compare_tolerance(&running->problem)));
    } else {
        json_object_set_new(report, "ok", json_true());
    }
    if (running->timed) {
        json_object_set_new(report, "time_us", output_number(bench->time_us));
        json_object_set_new(report, "spread_us", output_number(bench->spread_us));
        json_object_set_new(report, "timing_samples", json_integer(bench->samples));
        json_object_set_new(report, "cold", json_boolean(bench->cold));
        json_object_set_new(report, bench->execute_whole ? "execute_whole_us" : "execute_us",
                            output_number(bench->execute_us));
        if (bench->flop > 0)
            json_object_set_new(report, "tflops", output_number(bench->flop / bench->time_us * 1e-6));
        if (bench->copy_us > 0) {
            json_object_set_new(report, "copy_us", output_number(bench->copy_us));
            json_object_set_new(report, "copy_fraction", output_number(bench->copy_fraction));
        }
    }
    if (running->session.simulated) /* a simulated time is no time */
        json_object_del(report, "plan_us");
    return output_json(report);
}

static void print_time(const struct running *running)
{
    const struct bench_result *bench = &running->bench;
    char size[32];
    output_bytes(size, sizeof size, (double)tensors_bytes(&running->tensors, false));
    double flop = tensors_flop(&running->problem, running->tensors.samples);
    printf("bytes    %s read and written\n", size);
    if (flop > 0)
        printf("product  %.3g GFLOP\n", 1e-9 * flop);
    if (running->session.simulated) {
        printf("time     none: this was the simulator, whose times mean nothing\n");
    } else if (!running->timed) {
        printf("time     none: %s\n", running->plan->empty ? "nothing to launch" : "the check failed");
    } else {
        printf("time     %.2f us, quartiles %.2f apart (median of %d samples of %d launches, %s)\n",
               bench->time_us, bench->spread_us, bench->samples, bench->batch,
               !bench->cold        ? "too small to be out of the L2 cache"
               : bench->weight_hot ? "L2 cold but for the weight"
                                   : "L2 cold");
        if (flop > 0)
            printf("rate     %.2f TFLOP/s in the product, if it took all of the time\n",
                   flop / bench->time_us * 1e-6);
        if (bench->copy_us > 0)
            printf("copy     %.2f us for the same bytes: %.3f of the copy's bandwidth\n", bench->copy_us,
                   bench->copy_fraction);
        else
            printf("copy     not measured: %s\n", bench->copy_missing);
    }
}

static void print_text(const struct running *running, const gnf_plan_info *info)
{
    const struct session *session = &running->session;
    printf("problem  %s\n", info->problem);
    printf("device   %s (%s)\n", session->context->device.name, session->device);
    printf("variant  %s (%s)\n", info->variant, info->match);
    if (running->args->verbose) {
        printf("kernels  %u, %d registers, %d bytes of spills, %d of shared memory, %zu of workspace\n",
               info->kernels, info->registers, spills_of(running), info->shared_bytes, info->workspace_size);
        if (info->prepared_size > 0)
            printf("prepared %zu bytes of weight, once\n", info->prepared_size);
        printf("fallback %s, for pointers that are not aligned to 16 bytes\n", info->fallback);
        if (running->args->inputs.count == 0)
            printf("data     uniform in [-1, 1), seed %llu\n", (unsigned long long)running->args->seed);
    }
    if (running->args->check) {
        char text[384];
        compare_text(&running->tensors, &running->comparison, text, sizeof text);
        printf("check    %s, %s (tolerance %g)\n", running->comparison.ok ? "ok" : "FAILED", text,
               compare_tolerance(&running->problem));
    }
    print_time(running);
    if (running->args->verbose && !session->simulated) {
        printf("plan     %.0f us, %d kernels compiled\n", running->plan_us, running->compiles);
        if (running->timed)
            printf("execute  %.2f us of host time%s\n", running->bench.execute_us,
                   running->bench.execute_whole ? "" : " beyond the bare launch");
    }
    if (running->args->out != NULL)
        printf("y        %s\n", running->args->out);
}

static gnf_status run(struct running *running, int *exit_status)
{
    gnf_plan_info info = {.size = sizeof info};
    GNF_TRY(make_plan(running));
    GNF_TRY(execute(running));
    if (running->args->check) {
        GNF_TRY(check(running));
        *exit_status = running->comparison.ok ? 0 : 1;
    }
    if (running->args->out != NULL)
        GNF_TRY(write_output(running));
    /* No time is given for a wrong result. */
    if (!running->session.simulated && !running->plan->empty && *exit_status == 0) {
        GNF_TRY(bench_run(&running->bench, &running->session, &running->tensors, running->plan));
        running->timed = true;
    }
    GNF_TRY(gnf_plan_get_info(running->plan, &info));
    if (running->args->json)
        return print_json(running, &info);
    print_text(running, &info);
    return GNF_OK;
}

gnf_status command_run(const struct args *args, int *exit_status)
{
    struct running running = {.args = args};
    GNF_TRY(gnf_problem_parse(args->operand, &running.problem));
    if (args->out != NULL && files_check_writable(args->out) != GNF_OK)
        return gnf_fail_more(GNF_IO, " (--out)");
    gnf_status status = make_tensors(&running);
    if (status == GNF_OK)
        status = session_open(&running.session, args, &running.problem);
    if (status == GNF_OK) {
        status = run(&running, exit_status);
        gnf_plan_destroy(&running.plan);
        session_close(&running.session);
    }
    free(running.y);
    tensors_free(&running.tensors);
    return status;
}
