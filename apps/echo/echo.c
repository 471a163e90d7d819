#include "echo/echo.h"
#include "cli/serving.h"

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static const struct weir_handler echo = {.name = "echo", .read = echo_read};

int weir_echo_main(int argc, char **argv) {
    struct serving s = serving_defaults("echo", "127.0.0.1:9988");
    const struct cli_option options[] = {SERVING_OPTIONS(&s)};
    const struct cli_command command = {
        .name = "echo",
        .summary = "Sends back what it receives: N loops, each with its own listener and its own "
                   "connections.",
        .examples = "weir echo\n"
                    "weir echo --loops 4 --pin --trigger et\n"
                    "weir echo --listen 127.0.0.1:0 --stats -\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = cli_parse(&command, argc, argv, NULL);
    if (rc < 0)
        return cli_exit(rc);
    struct weir_group *g;
    const struct weir_stage line[] = {{&echo, NULL}};
    rc = serving_group(&s, &g);
    return rc ? rc : serving_run(&s, g, line, CLI_LENGTH(line), "echo");
}
