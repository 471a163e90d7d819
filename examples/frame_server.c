/* A protocol of one's own: messages with a length of four bytes (big-endian) in front. Each is
 * answered by "hello, " and itself. Frames are cut out of the input and into the output without
 * copying. */
#include <stdio.h>
#include <weir.h>
#include <weir/frame.h>

struct conn { /* zeroed for each connection */
    const struct weir_frame_format *format;
    struct weir_frame_decoder decoder;
};

static int greet_open(struct weir_ctx *c, const void *config) {
    ((struct conn *)weir_ctx_state(c))->format = config;
    weir_ctx_want(c, 4);
    return 0;
}

/* Takes name and appends the answer to out. */
static int greet(const struct weir_frame_format *f, struct weir_mem *m, struct weir_chain *name,
                 struct weir_chain *out) {
    struct weir_chain answer = {0};
    int rc = weir_chain_write(m, &answer, "hello, ", 7);
    weir_chain_append(&answer, name);
    if (rc >= 0)
        rc = weir_frame_write(f, m, &answer, out);
    if (rc < 0)
        weir_chain_fini(&answer);
    return rc;
}

static int greet_read(struct weir_ctx *c, struct weir_chain *in) {
    struct conn *n = weir_ctx_state(c);
    struct weir_mem *m = weir_ctx_mem(c);
    struct weir_chain out = {0}, name = {0};
    int rc;
    while ((rc = weir_frame_next(n->format, &n->decoder, m, in, &name)) > 0)
        if ((rc = greet(n->format, m, &name, &out)) < 0)
            break;
    weir_ctx_want(c, n->decoder.need);
    if (out.bytes && rc >= 0)
        rc = weir_ctx_send(c, &out);
    weir_chain_fini(&out);
    return rc; /* < 0 (a frame over the limit, no memory) closes this connection and no other */
}

static const struct weir_handler greeter = {
    .name = "greeter",
    .state_size = sizeof(struct conn),
    .open = greet_open,
    .read = greet_read,
};

int main(int argc, char **argv) {
    const struct weir_frame_options frames = {
        .size = sizeof frames,
        .kind = WEIR_FRAME_LENGTH,
        .frame_max = 1 << 20,
        .width = 4,
        .strip = 4,
    };
    struct weir_frame_format format;
    const struct weir_stage line[] = {{&greeter, &format}};
    struct weir_server_options o = {
        .size = sizeof o,
        .address = argc > 1 ? argv[1] : "127.0.0.1:9990",
        .stages = line,
        .n_stages = 1,
    };
    struct weir_group *g;
    struct weir_server *s;
    const char *why = "";
    if (weir_frame_format_init(&format, &frames, &why) < 0 || weir_group_new(NULL, &g) < 0)
        return fprintf(stderr, "frame_server: %s\n", why), 2;
    if (weir_serve(g, &o, &s) < 0) {
        fprintf(stderr, "frame_server: %s\n", weir_server_why(g));
        weir_group_join(g);
        return 2;
    }
    weir_group_start(g);
    printf("listening on %s\n", weir_server_address(s));
    fflush(stdout);
    return weir_group_run(g) < 0;
}
