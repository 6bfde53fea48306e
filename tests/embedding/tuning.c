#include "tuning.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const gnf_tune_options plain = {.size = sizeof plain, .samples = 3};
char self[4096], said[600], db[600];
gnf_context *shared;
gnf_tune_report report;

int tuning_setup(void **state)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0 || group_setup(state))
        return -1;
    self[length] = '\0';
    snprintf(said, sizeof said, "%s", scratch_path("said"));
    snprintf(db, sizeof db, "%s", scratch_path("tuned.jsonl"));
    setenv("GNFUSE_DB", db, 1);
    setenv("GNFUSE_PROGRAM", self, 1);
    setenv("FAKE_TUNER_SAID", said, 1);
    shared = open_context(device_context, "cache", NULL);
    return 0;
}

int tuning_teardown(void **state)
{
    gnf_context_destroy(&shared);
    return group_teardown(state);
}

gnf_status tune(gnf_context *context, const gnf_tune_options *options)
{
    report = (gnf_tune_report){.size = sizeof report};
    return gnf_tune(context, problem, options, &report);
}

void tuning_way(const char *way)
{
    setenv("FAKE_TUNER", way, 1);
    remove(said);
}

const char *read_said(void)
{
    static char text[65536];
    FILE *file = fopen(said, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    return text;
}

int count_said(const char *line)
{
    int count = 0;
    for (const char *at = read_said(); (at = strstr(at, line)); at++)
        count++;
    return count;
}

double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
