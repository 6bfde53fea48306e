/* Other programs and files of this project: where they are, what they are made of, and running them. */
#ifndef CLI_PROGRAMS_H
#define CLI_PROGRAMS_H

#include "files.h"
#include <stdbool.h>
#include <xxhash.h>

/* The first of these that can be read: the environment variable's value (that alone, if it is set); `name`
 * beside this executable; `built`, the place known at build time, relative to the executable's folder or
 * absolute; `name` on PATH. `variable` and `built` may be NULL. */
bool programs_find(char path[FILES_PATH_SIZE], const char *variable, const char *built, const char *name);

enum { PROGRAMS_MAX_WORDS = 256 };

/* Runs a program with up to PROGRAMS_MAX_WORDS arguments and waits; its standard output goes to standard
 * error. A script without the x bit is run by python3. arguments[0] is replaced by the path. *exit_code: 127
 * where it cannot be started. */
gnf_status programs_run(const char *path, const char *const arguments[], int *exit_code);

/* Adds names and contents of the folder's source files, folders below included, to the hash. A folder that is
 * not there adds nothing. */
void programs_identify_folder(XXH3_state_t *hash, const char *folder);
void programs_identify_file(XXH3_state_t *hash, const char *path);

#endif
