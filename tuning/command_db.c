#include "../runtime/cli/commands.h"

#include "db.h"
#include <string.h>

struct action {
    const char *name, *wants;
    int least, most; /* words after it */
    bool files;      /* takes --output */
    gnf_status (*run)(const struct args *args);
};
static const struct action actions[] = {
    {"show", "no argument", 0, 0, false, db_show},
    {"explain", "one PROBLEM", 1, 1, false, db_explain},
    {"merge", "one or more files", 1, ARGS_MAX_LIST, true, db_merge},
    {"export", "no argument", 0, 0, true, db_export},
};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

gnf_status command_db(const struct args *args, int *exit_status)
{
    (void)exit_status;
    const char *name = args->operand != NULL ? args->operand : "show";
    int words = args->operands.count > 0 ? args->operands.count - 1 : 0;
    for (int i = 0; i < ACTIONS; i++) {
        const struct action *action = &actions[i];
        if (strcmp(action->name, name) != 0)
            continue;
        if (words < action->least)
            return gnf_fail(GNF_INVALID_ARGUMENT, "%s: nothing is named (allowed: %s)", name, action->wants);
        if (words > action->most)
            return gnf_fail(GNF_INVALID_ARGUMENT, "%s: '%s' is too much (allowed: %s)", name,
                            args->operands.at[1 + action->most], action->wants);
        if (args->output != NULL && !action->files)
            return gnf_fail(GNF_INVALID_ARGUMENT, "--output: is for merge and export, and not for %s", name);
        return action->run(args);
    }
    return gnf_fail(GNF_INVALID_ARGUMENT,
                    "'%s' is not an action (allowed: show, explain PROBLEM, merge A B..., export)", name);
}
