/* A protocol of one's own: messages with a length of four bytes (big-endian) in front. Each is
 * answered by "hello, " and itself. weir_frame_handler cuts the frames out of the input, without
 * copying, and puts the length in front of what is sent. */
#include <stdio.h>
#include <weir.h>

static int greet(struct weir_ctx *c, struct weir_chain *name, void *user) {
    struct weir_chain answer = {0};
    (void)user;
    int rc = weir_chain_write(weir_ctx_mem(c), &answer, "hello, ", 7);
    weir_chain_append(&answer, name);
    if (rc >= 0)
        rc = weir_frame_send(c, &answer);
    weir_chain_fini(&answer);
    return rc; /* < 0 (no memory, over the limit) closes this connection and no other */
}

int main(int argc, char **argv) {
    const struct weir_frame_options frames = {
        .size = sizeof frames,
        .kind = WEIR_FRAME_LENGTH,
        .frame_max = 1 << 20,
        .width = 4,
        .strip = 4,
    };
    struct weir_frame_format format;
    const struct weir_frame_service service = {.format = &format, .frame = greet};
    const struct weir_stage line[] = {{&weir_frame_handler, &service}};
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
