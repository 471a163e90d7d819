#include "cli/inspect.h"
#include "weir/chan.h"
#include <stdio.h>
#include <string.h>

enum { GUARD_MIN = 4096 };

uint32_t inspect_watchdog(const struct inspect *i) {
    return i->watchdog_ms ? (uint32_t)i->watchdog_ms : UINT32_MAX;
}

const char *const inspect_allocs[] = {"cached", "pooled", "unpooled", NULL};
const char *const inspect_mem_debugs[] = {"default", "off",   "sampled", "full",
                                          "poison",  "guard", NULL};

static void tell_leak(const struct weir_mem_leak *leak, void *user) {
    char line[1024];
    (void)user;
    (void)weir_mem_leak_text(leak, line, sizeof line);
    fprintf(stderr, "weir: %s\n", line);
}

/* Each mode does what the one before it does, and more. */
static void watch(const char *mode, struct weir_mem_debug *d) {
    bool guard = !strcmp(mode, "guard"), poison = guard || !strcmp(mode, "poison");
    bool full = poison || !strcmp(mode, "full");
    d->leaks = full                       ? WEIR_MEM_LEAKS_FULL
               : !strcmp(mode, "sampled") ? WEIR_MEM_LEAKS_SAMPLED
                                          : WEIR_MEM_LEAKS_OFF;
    d->poison = poison;
    d->guard_min = guard ? GUARD_MIN : 0;
    d->on_leak = tell_leak;
}

void inspect_pools(const struct inspect *i, struct inspect_pools *out) {
    *out = (struct inspect_pools){.options.size = sizeof out->options,
                                  .debug.size = sizeof out->debug};
    for (unsigned mode = 0; inspect_allocs[mode]; mode++)
        if (!strcmp(i->alloc, inspect_allocs[mode]))
            out->options.mode = (enum weir_mem_mode)mode;
    if (!strcmp(i->mem_debug, "default"))
        return;
    watch(i->mem_debug, &out->debug);
    out->options.debug = &out->debug;
}

uint64_t inspect_row(const struct inspect *i, const char *name) {
    for (unsigned row = 0; i->command && row < i->command->n_options; row++)
        if (!strcmp(i->command->options[row].name, name))
            return UINT64_C(1) << row;
    return 0;
}

static const char *origin(const struct inspect *i, unsigned row) {
    if (i->given >> row & 1)
        return "flag";
    return i->from_env >> row & 1 ? "env" : "default";
}

static void show(const struct inspect *i, struct weir_admin *a) {
    for (unsigned row = 0; row < i->command->n_options; row++) {
        const struct cli_option *o = &i->command->options[row];
        char value[96];
        cli_value(o, value, sizeof value);
        /* One that does not fit is only missing on the page. */
        (void)weir_admin_parameter(a, o->name, value, origin(i, row));
    }
}

int inspect_open(const struct inspect *i, struct weir_group *g, struct weir_admin **out) {
    const char *program = i->command->name;
    *out = NULL;
    if (!i->admin)
        return 0;
    int rc = weir_admin_serve(g, i->admin, out);
    if (rc == WEIR_EINUSE)
        return cli_complain(program, "--admin: %s is in use; take another address", i->admin);
    if (rc < 0) {
        const char *why = weir_server_why(g);
        return cli_complain(program, "--admin: %s%s%s", why[0] ? why : i->admin,
                            why[0] ? "" : " cannot be used: ", why[0] ? "" : weir_strerror(rc));
    }
    show(i, *out);
    return 0;
}
