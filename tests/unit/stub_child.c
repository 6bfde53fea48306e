/* A child for test_tuning_child: answers lines as its arguments say. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void huge(size_t bytes)
{
    fputs("{\"text\":\"", stdout);
    for (size_t i = 0; i < bytes; i++)
        putchar('x');
    fputs("\"}\n", stdout);
}

int main(int argc, char **argv)
{
    char line[4096];
    const char *mode = argc > 1 ? argv[1] : "";
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(mode, "echo") == 0) {
            fputs(line, stdout);
        } else if (strcmp(mode, "twice") == 0) { /* two answers in one write, the second in two */
            printf("%s{\"half\":", line);
            fflush(stdout);
            usleep(50000);
            fputs("true}\n", stdout);
        } else if (strcmp(mode, "words") == 0) {
            printf("{\"count\":%d,\"last\":\"%s\"}\n", argc, argv[argc - 1]);
        } else if (strcmp(mode, "half") == 0) {
            fputs("{\"half\":", stdout);
            fflush(stdout);
            return 3;
        } else if (strcmp(mode, "nonsense") == 0) {
            puts("Segmentation fault (core dumped)");
        } else if (strcmp(mode, "huge") == 0) {
            huge((size_t)atol(argv[2]));
        } else if (strcmp(mode, "die") == 0) {
            raise(SIGKILL);
        } else if (strcmp(mode, "stop") == 0) { /* the one who waits */
            kill(getppid(), SIGSTOP);
            usleep(1500000);
            kill(getppid(), SIGCONT);
            usleep(200000);
            fputs(line, stdout);
        } else if (strcmp(mode, "hang") == 0) {
            for (;;)
                pause();
        }
        fflush(stdout);
    }
    /* The end of the input: one that does not go by itself has to be killed. */
    while (strcmp(mode, "stay") == 0)
        pause();
    return 0;
}
