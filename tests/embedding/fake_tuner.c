#include "fake_tuner.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char report[] =
    "{\"event\":\"report\",\"problem\":\"p\",\"key\":\"k\",\"samples\":3,\"variant\":\"fast.t32\","
    "\"default\":\"slow.t64\",\"time_us\":1.5,\"default_us\":2.25,\"measured\":7,\"known\":2,"
    "\"failed\":1,\"complete\":true,\"device\":\"0\"}";

static volatile sig_atomic_t asked_to_end;

static void note_end(int signal)
{
    (void)signal;
    asked_to_end = 1;
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

static void say_progress(const char *variant, int done, const char *best, const char *best_us)
{
    printf("{\"event\":\"progress\",\"problem\":\"p\",\"variant\":\"%s\",\"done\":%d,\"total\":10,\"best\":"
           "\"%s\","
           "\"best_us\":%s,\"elapsed_s\":0.1}\n",
           variant, done, best, best_us);
    fflush(stdout);
}

static int be_good(void)
{
    say_progress("", 0, "", "0");
    say_progress("slow.t64", 1, "slow.t64", "2.25");
    fprintf(stderr, "a word on standard error\n");
    say("{\"event\":\"of a newer program\",\"x\":[1,2]}");
    say_progress("fast.t32", 9, "fast.t32", "1.5");
    say(report);
    return 0;
}

static int find_no_room(void)
{
    say("{\"event\":\"report\",\"variant\":\"\",\"default\":\"slow.t64\",\"complete\":false,\"error\":\"no "
        "room for x\"}");
    return 4;
}

static int say_an_error(void)
{
    say("{\"event\":\"error\",\"status\":\"GNF_NO_COMPILER\",\"error\":\"libnvrtc is out fishing\"}");
    return 3;
}

static int say_a_new_error(void)
{
    say("{\"event\":\"error\",\"status\":\"GNF_OF_TOMORROW\",\"error\":\"something new\"}");
    return 3;
}

static int crash(void)
{
    fprintf(stderr, "first\nout of luck\n");
    fflush(stderr);
    return raise(SIGKILL);
}

static int leave(void)
{
    say("no event at all");
    return 3;
}

/* Until it is asked to end, and then in order. */
static int go_on(void)
{
    signal(SIGTERM, note_end);
    for (int i = 1; !asked_to_end; i++) {
        say_progress("slow.t64", i, "slow.t64", "2.25");
        usleep(10000);
    }
    say("{\"event\":\"report\",\"variant\":\"slow.t64\",\"default\":\"slow.t64\",\"time_us\":2.25,\"default_"
        "us\":2.25,"
        "\"measured\":4,\"known\":0,\"failed\":0,\"complete\":false}");
    return 0;
}

static int say_nothing(void)
{
    sleep(60);
    return 0;
}

static int be_stubborn(void)
{
    signal(SIGTERM, SIG_IGN);
    say_progress("slow.t64", 2, "slow.t64", "2.25");
    say_progress("slow.t64", 5, "fast.t32", "1.5");
    return say_nothing();
}

/* A child of its own keeps both pipes open. */
static int leave_an_orphan(void)
{
    if (fork() == 0)
        return (int)sleep(6);
    say(report);
    return 0;
}

/* Lines longer than any buffer, no JSON, and a last one without its newline. */
static int babble(void)
{
    for (int i = 0; i < 300000; i++)
        putchar('x');
    printf("\n\n{\n\"event\"\n[]\n17\n{\"event\":5}\n{\"event\":\"progress\",\"variant\":\"");
    for (int i = 0; i < 100000; i++)
        putchar('v');
    printf("\"}\n%s", report);
    fflush(stdout);
    return 0;
}

/* Standard error in the way: more than a pipe holds, before and after. */
static int complain(void)
{
    for (int i = 0; i < 30000; i++)
        fprintf(stderr, "complaint %d\n", i);
    say(report);
    for (int i = 0; i < 30000; i++)
        fprintf(stderr, "complaint %d\n", i);
    return 0;
}

/* Long enough for a second one to be seen that does not wait. */
static int take_time(void)
{
    usleep(1500000);
    say(report);
    return 0;
}

/* No output any more, but still there. */
static int close_and_stay(void)
{
    fclose(stdout);
    fclose(stderr);
    return say_nothing();
}

static void note_files(FILE *said)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *one; folder && (one = readdir(folder));) {
        int fd = atoi(one->d_name);
        if (one->d_name[0] != '.' && fd != dirfd(folder) && fd != fileno(said))
            fprintf(said, "open %d\n", fd);
    }
    if (folder)
        closedir(folder);
}

static void note_signals(FILE *said)
{
    struct sigaction action;
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int i = 1; i < 32; i++) {
        if (sigismember(&blocked, i) == 1)
            fprintf(said, "blocked %d\n", i);
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            fprintf(said, "ignored %d\n", i);
    }
}

/* A pack's file is copied, as the original is gone when the test looks. */
static void note_pack(FILE *said, const char *path)
{
    struct stat info;
    char copy[4200];
    int c;
    if (stat(path, &info))
        return;
    fprintf(said, "mode %o\n", (unsigned)info.st_mode & 0777);
    snprintf(copy, sizeof copy, "%s.pack", getenv("FAKE_TUNER_SAID"));
    FILE *in = fopen(path, "rb"), *out = fopen(copy, "wb");
    while (in && out && (c = getc(in)) != EOF)
        putc(c, out);
    if (in)
        fclose(in);
    if (out)
        fclose(out);
}

static void note_all(int argc, char **argv)
{
    const char *path = getenv("FAKE_TUNER_SAID");
    FILE *said = path ? fopen(path, "ae") : NULL;
    if (!said)
        return;
    for (int i = 1; i < argc; i++)
        fprintf(said, "argument %s\n", argv[i]);
    for (char **one = environ; *one; one++)
        if (!strncmp(*one, "GNFUSE_", 7))
            fprintf(said, "variable %s\n", *one);
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i - 1], "--pack"))
            note_pack(said, argv[i]);
    fprintf(said, "input %d\n", getchar());
    note_files(said);
    note_signals(said);
    fclose(said);
}

int fake_tuner(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } ways[] = {
        {"good", be_good},
        {"error", say_an_error},
        {"new error", say_a_new_error},
        {"crash", crash},
        {"leave", leave},
        {"go on", go_on},
        {"silent", say_nothing},
        {"babble", babble},
        {"stubborn", be_stubborn},
        {"orphan", leave_an_orphan},
        {"complain", complain},
        {"no room", find_no_room},
        {"slow", take_time},
        {"close", close_and_stay},
    };
    const char *way = getenv("FAKE_TUNER");
    note_all(argc, argv);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (way && !strcmp(way, ways[i].name))
            return ways[i].run();
    return 99;
}
