/* The program `weir`: finds the command and hands over. */
#include "cli/opt.h"
#include "cli/version.h"
#include "demo/demo.h"
#include "echo/echo.h"
#include "linkd/linkd.h"
#include "load/load.h"
#include "probe/probe.h"
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *summary;
};

static const struct command commands[] = {
    {"echo", weir_echo_main, "sends back what it receives, on one loop per CPU"},
    {"linkd", weir_linkd_main, "serves linkd frames with the handlers echo and digest"},
    {"load", weir_load_main, "measures a server: rates, latencies, errors, costs"},
    {"probe", weir_probe_main, "what this machine will really do, and what holds it back"},
    {"demo", weir_demo_main, "one tuning case end to end, with a report"},
    {"version", weir_version_main, "the version and how this program was built"},
};

static int usage(void) {
    printf("usage: weir COMMAND [OPTIONS]\n\nCommands:\n");
    for (unsigned i = 0; i < CLI_LENGTH(commands); i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    printf("  %-9s %s\n", "help", "the help of a command");
    printf("\nExamples:\n"
           "  weir echo --listen 127.0.0.1:9988 --loops 2\n"
           "  weir help linkd\n");
    return 0;
}

static const struct command *find(const char *name) {
    for (unsigned i = 0; i < CLI_LENGTH(commands); i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int unknown(const char *name) {
    const char *names[CLI_LENGTH(commands) + 2];
    unsigned n = 0;
    for (; n < CLI_LENGTH(commands); n++)
        names[n] = commands[n].name;
    names[n++] = "help";
    names[n] = NULL;
    if (name[0] == '-')
        return cli_complain(NULL, "%s: options stand behind a command; \"weir --help\" lists them",
                            name);
    const char *near = cli_near(name, names);
    if (near)
        return cli_complain(NULL, "no command \"%s\"; did you mean \"%s\"?", name, near);
    return cli_complain(NULL, "no command \"%s\"; \"weir --help\" lists them", name);
}

static bool asks_help(const char *word) {
    return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int help(int argc, char **argv) {
    if (argc < 2 || asks_help(argv[1]))
        return usage();
    const struct command *c = find(argv[1]);
    if (!c)
        return unknown(argv[1]);
    char option[] = "--help";
    char *arguments[] = {argv[1], option, NULL};
    return c->main(2, arguments);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return cli_complain(NULL, "which command? \"weir --help\" lists them");
    const char *name = argv[1];
    if (!strcmp(name, "--version"))
        name = "version";
    if (asks_help(name))
        return help(argc - 1, argv + 1);
    const struct command *c = find(name);
    return c ? c->main(argc - 1, argv + 1) : unknown(name);
}
