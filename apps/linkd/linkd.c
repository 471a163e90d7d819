#include "linkd/linkd.h"
#include "cli/serving.h"
#include "linkd/digest.h"
#include "weir/linkd.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const handlers[] = {"echo", "digest", NULL};

static int echo_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    return weir_linkd_answer(x, weir_linkd_payload(x));
}

static const struct weir_linkd_service echo_service = {.name = "echo", .call = echo_call};

struct arguments {
    struct serving serving;
    const char *handler;
    uint64_t rounds, frame_max;
};

static int serve(const struct arguments *a, struct weir_group *g,
                 const struct weir_linkd_route *route, const char *label) {
    struct weir_linkd_server_options o = {
        .size = sizeof o,
        .routes = route,
        .n_routes = 1,
        .frame_max = (uint32_t)a->frame_max,
    };
    const struct weir_stage line[] = {{&weir_linkd_server, &o}};
    return serving_run(&a->serving, g, line, CLI_LENGTH(line), label);
}

static int serve_digest(const struct arguments *a, struct weir_group *g) {
    struct digest *d = digest_new(g, (unsigned)a->rounds);
    if (!d) {
        weir_group_join(g);
        return cli_complain("linkd", "OpenSSL gives no SHA-256 here, which --handler digest needs");
    }
    char label[32];
    snprintf(label, sizeof label, "digest(%" PRIu64 ")", a->rounds);
    const struct weir_linkd_route route = {.service = 0, .handler = &digest_service, .user = d};
    int rc = serve(a, g, &route, label);
    digest_free(d);
    return rc;
}

int weir_linkd_main(int argc, char **argv) {
    struct arguments a = {
        .serving = serving_defaults("linkd", "127.0.0.1:9093"),
        .handler = "echo",
        .rounds = 16,
        .frame_max = WEIR_LINKD_FRAME_BYTES,
    };
    const struct cli_option options[] = {
        {.name = "handler",
         .kind = CLI_CHOICE,
         .value = &a.handler,
         .help = "what a request gets back",
         .choices = handlers},
        {.name = "digest-rounds",
         .kind = CLI_COUNT,
         .value = &a.rounds,
         .argument = "N",
         .help = "digest: SHA-256 rounds per request",
         .min = 1,
         .max = 1000000},
        {.name = "max-frame",
         .kind = CLI_BYTES,
         .value = &a.frame_max,
         .argument = "BYTES",
         .help = "largest payload of one frame",
         .min = 64,
         .max = WEIR_LINKD_FRAME_MAX},
        SERVING_OPTIONS(&a.serving),
    };
    const struct cli_command command = {
        .name = "linkd",
        .summary = "Serves linkd, a binary protocol of length-prefixed frames (docs/linkd.md).",
        .text =
            "Handlers: echo answers with the payload; digest with the last of N chained SHA-256 "
            "digests over it.\n",
        .examples = "weir linkd\n"
                    "weir linkd --handler digest --loops 1\n"
                    "weir linkd --listen 0.0.0.0:9093 --max-frame 4M --idle 60s\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = cli_parse(&command, argc, argv, NULL);
    if (rc < 0)
        return cli_exit(rc);
    struct weir_group *g;
    rc = serving_group(&a.serving, &g);
    if (rc)
        return rc;
    if (!strcmp(a.handler, "digest"))
        return serve_digest(&a, g);
    const struct weir_linkd_route route = {.service = 0, .handler = &echo_service};
    return serve(&a, g, &route, "echo");
}
