#include "cli/opt.h"
#include "load/load.h"
#include "load/proc.h"
#include "load/result.h"
#include <stdlib.h>
#include <string.h>

/* What can be known to be wrong before anything is sent. */
static int preflight(const struct load_options *o) {
    char why[160];
    uint64_t cpu, wait;
    if (o->stats_pid && !load_proc_cpu(o->stats_pid, &cpu, &wait))
        return cli_complain(
            "load", "--stats-pid: /proc/%u/task/*/schedstat cannot be read; is that process there?",
            o->stats_pid);
    const char *port = strrchr(o->address, ':');
    if (o->loops_expected && !load_proc_listeners((unsigned)strtoul(port + 1, NULL, 10),
                                                  o->loops_expected, why, sizeof why))
        return cli_complain("load",
                            "--loops-expected: %s, not %u of one; is an old server still there?",
                            why, o->loops_expected);
    return 0;
}

/* One line with what to check, instead of a report about nothing. */
static void say_unreachable(const struct load_result *res) {
    const struct load_error *e = load_result_worst(res);
    char name[96] = "no answer";
    if (e)
        load_fault_name(e, name, sizeof name);
    const struct load_options *o = res->run->o;
    if (!atomic_load(&res->run->opened))
        cli_complain(
            "load", "no connection to %s (%s: %s); is the server running, and is this its address?",
            o->address, name, e ? e->first : "");
    else
        cli_complain(
            "load",
            "every connection to %s failed %d times in a row (%s: %s); does that server speak %s?",
            o->address, LOAD_DEAD_AFTER, name, e ? e->first : "", o->linkd ? "linkd" : "echo");
}

static int report(const struct load_result *res) {
    const struct load_options *o = res->run->o;
    const struct load_error *worst = load_result_worst(res);
    if (worst && worst->fault == LOAD_FAULT_CONNECT && worst->code == WEIR_EINVAL)
        return cli_complain(
            "load", "\"%s\" is no address; write 127.0.0.1:9988, [::1]:9988 or localhost:9988",
            o->address);
    bool to_stdout = o->json && !strcmp(o->json, "-");
    bool about_nothing = res->exit_code == 4 && !atomic_load(&res->run->opened);
    if (!o->quiet && !about_nothing)
        load_text_print(res, to_stdout ? stderr : stdout);
    fflush(stdout);
    if (res->exit_code == 4)
        say_unreachable(res);
    int rc = o->json ? load_json_write(res, o->json) : 0;
    return rc ? rc : res->exit_code;
}

int weir_load_main(int argc, char **argv) {
    struct load_options o;
    int rc = load_options_parse(&o, argc, argv);
    if (rc >= 0)
        return rc;
    struct load_run r;
    rc = preflight(&o);
    if (rc || (rc = load_run_init(&r, &o)))
        return rc;
    struct load_result *res = malloc(sizeof *res);
    if (res) {
        load_result_make(res, &r, load_run_go(&r));
        rc = report(res);
    } else {
        rc = cli_complain("load", "out of memory");
    }
    load_run_fini(&r);
    free(res);
    return rc;
}
