#include "cli/version.h"
#include "cli/opt.h"
#include <jansson.h>
#include <stdio.h>

#ifdef WEIR_CHECKED
static const int checked = 1;
#else
static const int checked = 0;
#endif
#ifdef __clang__
static const char compiler[] = "clang " __clang_version__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

static int print_json(void) {
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:s}", "schema", "weir.version/1",
                          "version", WEIR_VERSION, "compiler", compiler, "flags", WEIR_BUILD_FLAGS,
                          "sanitizers", WEIR_BUILD_SANITIZE, "checked", checked, "machine",
                          WEIR_BUILD_MACHINE);
    if (!j || json_dumpf(j, stdout, JSON_INDENT(2)) < 0) {
        json_decref(j);
        return cli_complain("version", "out of memory");
    }
    json_decref(j);
    putchar('\n');
    return 0;
}

int weir_version_main(int argc, char **argv) {
    bool json = false;
    const struct cli_option options[] = {
        {.name = "json", .kind = CLI_FLAG, .value = &json, .help = "as JSON (weir.version/1)"},
    };
    const struct cli_command command = {
        .name = "version",
        .summary = "Prints the version of this program and how it was built.",
        .examples = "weir version\nweir version --json\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = cli_parse(&command, argc, argv, NULL);
    if (rc < 0)
        return cli_exit(rc);
    if (json)
        return print_json();
    printf("weir %s\ncompiler %s\nflags    %s\nchecked  %s\nsanitize %s\nmachine  %s\n",
           WEIR_VERSION, compiler, WEIR_BUILD_FLAGS, checked ? "yes" : "no",
           WEIR_BUILD_SANITIZE[0] ? WEIR_BUILD_SANITIZE : "none", WEIR_BUILD_MACHINE);
    return 0;
}
