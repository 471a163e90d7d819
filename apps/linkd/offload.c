#include "linkd/offload.h"
#include "cli/opt.h"
#include <stdio.h>
#include <string.h>

static const char *const orders[] = {"ordered", "unordered", NULL};

static int bad(const char *text) {
    const char *comma = strchr(text, ',');
    const char *near = comma ? cli_near(comma + 1, orders) : NULL;
    if (near && strcmp(near, comma + 1) != 0)
        return cli_complain("linkd",
                            "--offload: \"%s\" is not N, N,ordered or N,unordered; did you mean "
                            "%s?",
                            text, near);
    return cli_complain("linkd", "--offload: \"%s\" is not N, N,ordered or N,unordered", text);
}

int offload_read(const char *text, struct offload *out) {
    const char *comma = strchr(text, ',');
    char number[32];
    uint64_t n;
    size_t length = comma ? (size_t)(comma - text) : strlen(text);
    *out = (struct offload){.order = WEIR_ORDERED};
    if (length >= sizeof number)
        return bad(text);
    snprintf(number, sizeof number, "%.*s", (int)length, text);
    if (!cli_count(number, &n))
        return bad(text);
    if (n > OFFLOAD_WORKERS_MAX)
        return cli_complain("linkd", "--offload: %s is outside 0 to %d workers", number,
                            OFFLOAD_WORKERS_MAX);
    out->workers = (unsigned)n;
    if (comma && strcmp(comma + 1, orders[WEIR_UNORDERED]) == 0)
        out->order = WEIR_UNORDERED;
    else if (comma && strcmp(comma + 1, orders[WEIR_ORDERED]) != 0)
        return bad(text);
    return 0;
}

void offload_label(const struct offload *o, const char *handler, char *label, size_t cap) {
    if (o->workers)
        snprintf(label, cap, "%s offload %u,%s", handler, o->workers, orders[o->order]);
    else
        snprintf(label, cap, "%s", handler);
}
