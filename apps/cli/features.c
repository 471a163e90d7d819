#include "cli/features.h"
#include "weir/host.h"
#include <stdio.h>
#include <stdlib.h>

static const char variable[] = "WEIR_URING_FEATURES";

bool features_env(const char **list) {
    const char *value = getenv(variable);
    if (*list || !value || !value[0])
        return false;
    *list = value;
    return true;
}

int features_check(const char *list, const char *program, bool from_env) {
    struct weir_host_uring u = {.size = sizeof u};
    char names[256] = "";
    size_t n = 0;
    if (!list || weir_host_uring(list, &u) >= 0)
        return 0;
    for (unsigned i = 0; i < u.n_features && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, ", %s", u.features[i].name);
    return cli_complain(program,
                        "%s: \"%s\" is no list of all, none%s; a \"-\" before one goes without it",
                        from_env ? variable : "--uring-features", list, names);
}
