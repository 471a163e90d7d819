/* An echo server. Safe by default: reading stops while a channel's own output is above its high
 * mark, so a peer that does not read costs a bounded amount of memory. SIGTERM ends it cleanly. */
#include <stdio.h>
#include <weir.h>

static int echo_read(struct weir_ctx *c, struct weir_chain *in) {
    return weir_ctx_send(c, in);
}

static const struct weir_handler echo = {.name = "echo", .read = echo_read};

int main(int argc, char **argv) {
    const struct weir_stage line[] = {{&echo, NULL}};
    struct weir_server_options o = {
        .size = sizeof o,
        .address = argc > 1 ? argv[1] : "127.0.0.1:9988",
        .stages = line,
        .n_stages = 1,
    };
    struct weir_group *g;
    struct weir_server *s;
    if (weir_group_new(NULL, &g) < 0)
        return 2;
    if (weir_serve(g, &o, &s) < 0) {
        fprintf(stderr, "echo: %s\n", weir_server_why(g));
        weir_group_join(g);
        return 2;
    }
    weir_group_start(g);
    printf("listening on %s\n", weir_server_address(s));
    fflush(stdout);
    return weir_group_run(g) < 0;
}
