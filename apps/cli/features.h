/* Which of io_uring's features are used: --uring-features, or the environment. */
#ifndef APPS_CLI_FEATURES_H
#define APPS_CLI_FEATURES_H
#include "cli/opt.h"

/* The row of an option table; list is a const char *, NULL until one is given. */
#define FEATURES_OPTION(list)                                                            \
    {                                                                                    \
        .name = "uring-features", .kind = CLI_TEXT, .value = (list), .argument = "LIST", \
        .help = "what of io_uring is used: -multi-recv,-zero-copy; none"                 \
    }

/* Takes the list from WEIR_URING_FEATURES when none was given: true. */
bool features_env(const char **list);
/* 0, or the exit code after one line that names the features there are. */
int features_check(const char *list, const char *program, bool from_env);

#endif
