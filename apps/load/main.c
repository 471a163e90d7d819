#include "cli/opt.h"
#include "load/load.h"
#include "load/proc.h"
#include "load/result.h"
#include <inttypes.h>
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

/* One line with what to check; without any connection it stands for a report about nothing. */
static void say_unreachable(const struct load_result *res) {
    const struct load_error *e = load_result_worst(res);
    const struct load_options *o = res->run->o;
    const char *first = e ? e->first : "";
    uint64_t ok = res->ledger.ok + res->warmup.ok;
    char name[96] = "no answer";
    if (e)
        load_fault_name(e, name, sizeof name);
    if (!atomic_load(&res->run->opened))
        cli_complain(
            "load", "no connection to %s (%s: %s); is the server running, and is this its address?",
            o->address, name, first);
    else if (ok)
        cli_complain("load", "%s stopped answering after %" PRIu64 " request%s (%s: %s)",
                     o->address, ok, ok == 1 ? "" : "s", name, first);
    else if (e && e->fault == LOAD_FAULT_TIMEOUT)
        cli_complain("load", "%s accepts connections but does not answer (%s: %s)", o->address,
                     name, first);
    else
        cli_complain(
            "load",
            "every connection to %s failed %d times in a row (%s: %s); does that server speak %s?",
            o->address, LOAD_DEAD_AFTER, name, first, o->linkd ? "linkd" : "echo");
}

/* json: where the JSON report goes, NULL: nowhere; it is closed. */
static int report(const struct load_result *res, FILE *json) {
    const struct load_options *o = res->run->o;
    bool about_nothing = res->exit_code == 4 && !atomic_load(&res->run->opened);
    if (!o->quiet && !about_nothing)
        load_text_print(res, json == stdout ? stderr : stdout);
    fflush(stdout);
    if (res->exit_code == 4)
        say_unreachable(res);
    int rc = json ? load_json_write(res, json) : 0;
    return rc ? rc : res->exit_code;
}

static bool no_address(const struct load_result *res) {
    const struct load_error *worst = load_result_worst(res);
    return worst && worst->fault == LOAD_FAULT_CONNECT && worst->code == WEIR_EINVAL;
}

static int measure(const struct load_options *o, struct load_run *r, struct load_result *res,
                   FILE *json) {
    load_result_make(res, r, load_run_go(r));
    if (!no_address(res))
        return report(res, json);
    if (json && json != stdout)
        fclose(json);
    return cli_complain("load",
                        "\"%s\" is no address; write 127.0.0.1:9988, [::1]:9988 or localhost:9988",
                        o->address);
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
    FILE *json = o.json ? load_json_open(o.json) : NULL;
    if (!res)
        rc = cli_complain("load", "out of memory");
    else
        rc = o.json && !json ? 2 : measure(&o, &r, res, json);
    load_run_fini(&r);
    free(res);
    return rc;
}
