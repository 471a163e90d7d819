#include "linkd/linkd.h"
#include "cli/serving.h"
#include "linkd/digest.h"
#include "linkd/offload.h"
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

/* There and back: what the executor itself costs. */
static void there(struct weir_linkd_job *j) {
    (void)j;
}

static void back(struct weir_linkd_call *x, struct weir_linkd_job *j, int status) {
    (void)status;
    if (x && weir_linkd_answer(x, &j->payload) < 0)
        (void)weir_linkd_fail(x, WEIR_LINKD_OVERLOADED, NULL);
    weir_chain_fini(&j->payload);
    weir_mem_free(j);
}

static int echo_offload_call(struct weir_linkd_call *x, void *user) {
    const struct offload *o = user;
    struct weir_linkd_job *j = weir_mem_new(weir_linkd_mem(x), sizeof *j);
    if (!j)
        return WEIR_ENOMEM;
    j->run = there;
    j->done = back;
    int rc = weir_linkd_offload(x, j, o->order);
    if (rc < 0)
        weir_mem_free(j);
    return rc;
}

static const struct weir_linkd_service echo_offloaded = {
    .name = "echo", .call = echo_offload_call, .offloads = true};

struct arguments {
    struct serving serving;
    const char *handler, *offload_text;
    struct offload offload;
    uint64_t rounds, frame_max;
};

static int serve(const struct arguments *a, struct weir_group *g,
                 const struct weir_linkd_route *route, const char *handler) {
    struct weir_linkd_server_options o = {
        .size = sizeof o,
        .routes = route,
        .n_routes = 1,
        .frame_max = (uint32_t)a->frame_max,
    };
    const struct weir_stage line[] = {{&weir_linkd_server, &o}};
    char label[96];
    offload_label(&a->offload, handler, label, sizeof label);
    return serving_run(&a->serving, g, line, CLI_LENGTH(line), label);
}

static int serve_digest(const struct arguments *a, struct weir_group *g) {
    struct digest *d = digest_new(g, (unsigned)a->rounds, a->offload.order);
    if (!d) {
        weir_group_join(g);
        return cli_complain("linkd", "OpenSSL gives no SHA-256 here, which --handler digest needs");
    }
    char handler[32];
    snprintf(handler, sizeof handler, "digest(%" PRIu64 ")", a->rounds);
    const struct weir_linkd_route route = {
        .handler = a->offload.workers ? &digest_offloaded : &digest_service, .user = d};
    int rc = serve(a, g, &route, handler);
    digest_free(d);
    return rc;
}

static int serve_echo(struct arguments *a, struct weir_group *g) {
    const struct weir_linkd_route route = {
        .handler = a->offload.workers ? &echo_offloaded : &echo_service, .user = &a->offload};
    return serve(a, g, &route, "echo");
}

int weir_linkd_main(int argc, char **argv) {
    struct arguments a = {
        .serving = serving_defaults("linkd", "127.0.0.1:9093"),
        .handler = "echo",
        .offload_text = "0",
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
        {.name = "offload",
         .kind = CLI_TEXT,
         .value = &a.offload_text,
         .argument = "N[,ORDER]",
         .help = "N workers do the handler's work; answers ordered (the default) or unordered"},
        {.name = "max-frame",
         .kind = CLI_BYTES,
         .value = &a.frame_max,
         .argument = "BYTES",
         .help = "largest payload of one frame",
         .min = 64,
         .max = WEIR_LINKD_FRAME_MAX},
        SERVING_OPTIONS(&a.serving),
    };
    struct cli_command command = {
        .name = "linkd",
        .summary = "Serves linkd, a binary protocol of length-prefixed frames (docs/linkd.md).",
        .text =
            "Handlers: echo answers with the payload; digest with the last of N chained SHA-256 "
            "digests over it.\n",
        .examples = "weir linkd\n"
                    "weir linkd --handler digest --loops 1 --offload 2\n"
                    "weir linkd --listen 0.0.0.0:9093 --max-frame 4M --idle 60s\n",
        .options = options,
        .n_options = CLI_LENGTH(options),
    };
    int rc = serving_parse(&a.serving, &command, argc, argv);
    if (rc < 0)
        return cli_exit(rc);
    rc = offload_read(a.offload_text, &a.offload);
    if (rc)
        return rc;
    a.serving.workers = a.offload.workers;
    struct weir_group *g;
    rc = serving_group(&a.serving, &g);
    if (rc)
        return rc;
    if (!strcmp(a.handler, "digest"))
        return serve_digest(&a, g);
    return serve_echo(&a, g);
}
