#include "programs.h"

#include "interrupt.h"
#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, R_OK) == 0;
}

static bool executable_folder(char out[FILES_PATH_SIZE])
{
    ssize_t length = readlink("/proc/self/exe", out, FILES_PATH_SIZE - 1);
    if (length <= 0)
        return false;
    out[length] = '\0';
    *strrchr(out, '/') = '\0';
    return true;
}

static bool find_on_path(char path[FILES_PATH_SIZE], const char *name)
{
    const char *folder = getenv("PATH");
    while (folder != NULL && *folder != '\0') {
        size_t length = strcspn(folder, ":");
        int used = snprintf(path, FILES_PATH_SIZE, "%.*s/%s", (int)length, folder, name);
        if (length > 0 && used < FILES_PATH_SIZE && is_file(path) && access(path, X_OK) == 0)
            return true;
        folder += length + (folder[length] == ':');
    }
    return false;
}

bool programs_find(char path[FILES_PATH_SIZE], const char *variable, const char *built, const char *name)
{
    const char *given = variable != NULL ? getenv(variable) : NULL;
    if (given != NULL && *given != '\0')
        return snprintf(path, FILES_PATH_SIZE, "%s", given) < FILES_PATH_SIZE && is_file(path);
    char folder[FILES_PATH_SIZE];
    if (executable_folder(folder)) {
        if (files_join(path, folder, name) == GNF_OK && is_file(path))
            return true;
        if (built != NULL && built[0] != '/' && files_join(path, folder, built) == GNF_OK && is_file(path))
            return true;
    }
    if (built != NULL && built[0] == '/' && snprintf(path, FILES_PATH_SIZE, "%s", built) < FILES_PATH_SIZE &&
        is_file(path))
        return true;
    return find_on_path(path, name);
}

gnf_status programs_run(const char *path, const char *const arguments[], int *exit_code)
{
    const char *words[PROGRAMS_MAX_WORDS + 3];
    int count = 0;
    bool script = access(path, X_OK) != 0;
    if (script)
        words[count++] = "python3";
    words[count++] = path;
    for (int i = 1; arguments[i] != NULL && i < PROGRAMS_MAX_WORDS; i++)
        words[count++] = arguments[i];
    words[count] = NULL;

    *exit_code = 127;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory to start it", path);
    if (interrupt_spawn_attributes(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory to start it", path);
    }
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    pid_t child;
    /* posix_spawn's argv is not const for historical reasons alone. */
    int failed = posix_spawnp(&child, words[0], &actions, &attributes, (char **)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0)
        return gnf_fail(GNF_IO, "%s: cannot be started: %s", path, strerror(failed));
    int state = 0;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return gnf_fail(GNF_IO, "%s: cannot be waited for: %s", path, strerror(errno));
    *exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return GNF_OK;
}

void programs_identify_file(XXH3_state_t *hash, const char *path)
{
    void *data;
    size_t size;
    if (files_read(path, &data, &size) != GNF_OK)
        return;
    XXH3_128bits_update(hash, &size, sizeof size);
    XXH3_128bits_update(hash, data, size);
    free(data);
}

static bool is_source(const char *name)
{
    static const char *const endings[] = {".py", ".j2", ".h", ".cc", ".cu", ".cuh", ".toml"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof endings[0]; i++)
        if (strcmp(dot, endings[i]) == 0)
            return true;
    return false;
}

void programs_identify_folder(XXH3_state_t *hash, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char path[FILES_PATH_SIZE];
        struct stat info;
        if (name[0] != '.' && name[0] != '_' && files_join(path, folder, name) == GNF_OK &&
            stat(path, &info) == 0) {
            if (S_ISDIR(info.st_mode)) {
                programs_identify_folder(hash, path);
            } else if (is_source(name)) {
                XXH3_128bits_update(hash, name, strlen(name));
                programs_identify_file(hash, path);
            }
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}
