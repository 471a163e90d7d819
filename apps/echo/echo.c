#include "echo/echo.h"
#include "cli/serving.h"
#include "echo/burn.h"

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static const struct weir_handler echo = {.name = "echo", .read = echo_read};

static int serve_burning(const struct serving *s, struct weir_group *g, uint64_t us) {
    struct burn *b = burn_new(g, us);
    if (!b || burn_start(b) < 0) {
        weir_group_join(g);
        burn_free(b);
        return cli_complain("echo", "--burn-us: no memory");
    }
    const struct weir_stage line[] = {burn_stage(b), {&echo, NULL}};
    int rc = serving_run(s, g, line, CLI_LENGTH(line), "echo behind burn");
    burn_free(b);
    return rc;
}

int weir_echo_main(int argc, char **argv) {
    struct serving s = serving_defaults("echo", "127.0.0.1:9988");
    uint64_t burn_us = 0;
    const struct cli_option options[] = {
        SERVING_OPTIONS(&s),
        {.name = "burn-us",
         .kind = CLI_COUNT,
         .value = &burn_us,
         .argument = "US",
         .help = "lab: a handler that spends this much CPU per read goes in at run time",
         .max = 10000000},
    };
    struct cli_command command = {
        .name = "echo",
        .summary = "Sends back what it receives: N loops, each with its own connections.",
        .examples = "weir echo\n"
                    "weir echo --loops 4 --pin --trigger et\n"
                    "weir echo --listen 127.0.0.1:0 --stats -\n"
                    "weir echo --admin 127.0.0.1:9900\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = serving_parse(&s, &command, argc, argv);
    if (rc < 0)
        return cli_exit(rc);
    struct weir_group *g;
    const struct weir_stage line[] = {{&echo, NULL}};
    rc = serving_group(&s, &g);
    if (rc)
        return rc;
    return burn_us ? serve_burning(&s, g, burn_us)
                   : serving_run(&s, g, line, CLI_LENGTH(line), "echo");
}
