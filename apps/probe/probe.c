#include "probe/probe.h"
#include "cli/features.h"
#include "cli/opt.h"
#include "cli/sockets.h"
#include "probe/facts.h"
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

static int print_json(const struct fact *facts, unsigned n) {
    json_t *list = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s}", "name", facts[i].name, "value", facts[i].value,
                            "verdict", fact_verdict_text(facts[i].verdict), "note", facts[i].note));
    json_t *all = json_pack("{s:s, s:o}", "schema", "weir.probe/1", "facts", list);
    int rc = all && json_dumpf(all, stdout, JSON_INDENT(2)) >= 0 ? 0 : 1;
    json_decref(all);
    putchar('\n');
    return rc;
}

static void print_text(const struct fact *facts, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        printf("%-18s %-34s %-*s%s%s\n", facts[i].name, facts[i].value, facts[i].note[0] ? 10 : 0,
               fact_verdict_text(facts[i].verdict), facts[i].note[0] ? " " : "", facts[i].note);
}

/* Trying a transport that is missing logs a line; the table says it better. */
static unsigned read_quietly(struct fact *facts, const struct facts_path *path,
                             const char *uring_features) {
    int kept = dup(STDERR_FILENO), none = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (kept >= 0 && none >= 0)
        dup2(none, STDERR_FILENO);
    unsigned n = facts_read(facts, path, uring_features);
    if (kept >= 0 && none >= 0)
        dup2(kept, STDERR_FILENO);
    if (none >= 0)
        close(none);
    if (kept >= 0)
        close(kept);
    return n;
}

int weir_probe_main(int argc, char **argv) {
    bool json = false;
    const char *features = NULL;
    struct facts_path path = {.text = "1Gbit,20ms"};
    const struct cli_option options[] = {
        {.name = "bdp",
         .kind = CLI_TEXT,
         .value = &path.text,
         .argument = "RATE,RTT",
         .help = "the path that one connection must fill"},
        FEATURES_OPTION(&features),
        {.name = "json", .kind = CLI_FLAG, .value = &json, .help = "as JSON (weir.probe/1)"},
    };
    const struct cli_command command = {
        .name = "probe",
        .summary = "Says what this machine will really do for a server, and what holds it back.",
        .text = "Each line: what it is, its value here, fine or too small or missing, and why it "
                "matters.\n",
        .examples = "weir probe\nweir probe --bdp 10Gbit,50ms\nweir probe --json\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = cli_parse(&command, argc, argv, NULL);
    if (rc < 0)
        return cli_exit(rc);
    rc = sockets_bdp(path.text, "probe", &path.bytes);
    if (rc)
        return rc;
    bool from_env = features_env(&features);
    rc = features_check(features, "probe", from_env);
    if (rc)
        return rc;
    struct fact facts[FACTS_MAX];
    unsigned n = read_quietly(facts, &path, features);
    if (json)
        return print_json(facts, n);
    print_text(facts, n);
    return 0;
}
