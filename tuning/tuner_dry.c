/* `gnfuse tune --dry-run`. */
#include "tuner_plan.h"

#include "../runtime/cli/output.h"
#include "../runtime/image.h"
#include <stdlib.h>

enum todo { COMPILE, MEASURE, KNOWN, REFUSED, TODO_COUNT };
static const char *const todo_words[] = {"compile and measure", "measure", "known", "refused"};
static const char *const todo_fields[] = {"compile", "measure", "known", "refused"};

static bool is_cached(struct gnf_cache *cache, const struct gnf_target *target, const struct tuner_variant *v)
{
    bool cached = true;
    for (int i = 0; i < v->variant->kernel_count && cached; i++) {
        const struct gnf_kernel *kernel = &v->variant->kernel[i];
        struct gnf_target own = *target;
        char *source = NULL, *key = NULL;
        void *image = NULL;
        size_t size;
        cached = (!kernel->exact || gnf_compiler_exact_target(own.name, kernel->entry) == GNF_OK) &&
                 gnf_pack_source(v->pack, kernel, &source) == GNF_OK &&
                 gnf_image_key(&own, source, &key) == GNF_OK &&
                 gnf_cache_fetch(cache, key, kernel->entry, NULL, NULL, &image, &size) == GNF_OK;
        free(image);
        free(key);
        free(source);
    }
    return cached;
}

static enum todo todo_of(const struct tuner_variant *v, struct gnf_cache *cache,
                         const struct gnf_target *target)
{
    if (v->refused[0] != '\0')
        return REFUSED;
    if (!v->running)
        return KNOWN;
    return target != NULL && is_cached(cache, target, v) ? MEASURE : COMPILE;
}

static json_t *list_job(const struct tuner_job *job, struct gnf_cache *cache, const struct gnf_target *target)
{
    json_t *object = json_pack("{s:s}", "problem", job->problem->text), *lists[TODO_COUNT];
    int counts[TODO_COUNT] = {0};
    enum todo *todo = calloc((size_t)job->count, sizeof *todo);
    for (int i = 0; i < TODO_COUNT; i++) {
        lists[i] = json_array();
        json_object_set_new(object, todo_fields[i], lists[i]);
    }
    for (int i = 0; i < job->count && todo != NULL; i++) {
        todo[i] = todo_of(&job->variants[i], cache, target);
        counts[todo[i]]++;
        json_array_append_new(lists[todo[i]], json_string(job->variants[i].variant->name));
    }
    if (!job->tuner->args->json && !job->tuner->args->events && todo != NULL) {
        printf("%s: %d to compile, %d to measure, %d known, %d refused\n", job->problem->text,
               counts[COMPILE], counts[COMPILE] + counts[MEASURE], counts[KNOWN], counts[REFUSED]);
        for (int i = 0; i < job->count; i++)
            printf("  %-36s %s%s%s\n", job->variants[i].variant->name, todo_words[todo[i]],
                   todo[i] == REFUSED ? ": " : "", todo[i] == REFUSED ? job->variants[i].refused : "");
    }
    free(todo);
    return object;
}

gnf_status tuner_dry_run(struct tuner *tuner, const struct gnf_problem *missing, int missing_count)
{
    const struct gnf_options *options = &tuner->session->options;
    const bool text = !tuner->args->json && !tuner->args->events;
    struct gnf_cache *cache;
    json_t *problems = json_array();
    GNF_TRY(gnf_cache_create(&cache, options->cache_dir, options->cache_limit, NULL));
    for (int i = 0; i < tuner->job_count; i++) {
        const struct tuner_job *job = &tuner->jobs[i];
        struct gnf_target target;
        bool known =
            gnf_target_find(&target, cache, NULL, "", job->kind->facts.capability, false, 0) == GNF_OK;
        json_array_append_new(problems, list_job(job, cache, known ? &target : NULL));
    }
    for (int i = 0; i < missing_count; i++) {
        if (text)
            printf("%s: its kernels have to be generated first\n", missing[i].text);
        json_array_append_new(problems, json_pack("{s:s, s:b}", "problem", missing[i].text, "generate", 1));
    }
    gnf_cache_destroy(cache);
    if (!text)
        return output_json(
            json_pack("{s:b, s:s, s:o}", "ok", 1, "gpu", tuner->kind[0].device.gpu, "problems", problems));
    json_decref(problems);
    return output_flush();
}
