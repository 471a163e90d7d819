/* A client: sends one MiB, says that this was all, and counts what comes back; run it against the
 * echo example. A client goes on reading while its own output is full, because a server stops when
 * nobody takes its answers: were both to stop, both would wait for ever. */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

enum { BYTES = 1 << 20 };

struct result { /* written on the loop's thread; main reads it when the loop has ended */
    uint64_t got;
    int why;
};

struct job {
    const char *address;
    struct weir_group *group;
    struct result *result;
};

static void over(const struct job *j, int why) {
    j->result->why = why;
    weir_group_stop(j->group, 0);
}

/* One send may be larger than the high mark: it is queued whole. Who has more than a few MiB sends
 * as weir_ctx_room and `writable` say, or offers a `pull`. */
static int send_all(struct weir_ctx *c) {
    static const uint8_t block[4096];
    struct weir_chain out = {0};
    int rc = 0;
    while (rc >= 0 && out.bytes < BYTES)
        rc = weir_chain_write(weir_ctx_mem(c), &out, block, sizeof block);
    if (rc >= 0)
        rc = weir_ctx_send(c, &out);
    weir_chain_fini(&out);
    return rc;
}

struct conn { /* zeroed for each connection */
    const struct job *job;
};

static int client_open(struct weir_ctx *c, const void *config) {
    struct conn *n = weir_ctx_state(c);
    n->job = config;
    int rc = send_all(c);
    weir_chan_shutdown(weir_ctx_chan(c));
    return rc;
}

static int client_read(struct weir_ctx *c, struct weir_chain *in) {
    struct conn *n = weir_ctx_state(c);
    n->job->result->got += in->bytes;
    weir_chain_fini(in);
    return 0;
}

static void client_close(struct weir_ctx *c, int why) {
    struct conn *n = weir_ctx_state(c);
    over(n->job, why);
}

static const struct weir_handler client = {
    .name = "client",
    .state_size = sizeof(struct conn),
    .open = client_open,
    .read = client_read,
    .close = client_close,
};

static void connected(struct weir_chan *ch, int status, void *user) {
    (void)ch; /* its handlers have been opened */
    if (status < 0)
        over(user, status);
}

static void begin(struct weir_loop *l, void *user) {
    const struct job *j = user;
    const struct weir_stage line[] = {{&client, j}};
    struct weir_client_options o = {
        .size = sizeof o, .address = j->address, .stages = line, .n_stages = 1};
    int rc = weir_connect(l, &o, connected, user);
    if (rc < 0)
        over(j, rc);
}

int main(int argc, char **argv) {
    const struct weir_group_options o = {.size = sizeof o, .loops = 1};
    struct result r = {0};
    struct job j = {.address = argc > 1 ? argv[1] : "127.0.0.1:9988", .result = &r};
    int rc = weir_group_new(&o, &j.group);
    if (rc >= 0 && (rc = weir_loop_post(weir_group_loop(j.group, 0), begin, &j)) < 0)
        weir_group_join(j.group);
    if (rc >= 0)
        rc = weir_group_run(j.group);
    if (rc >= 0)
        rc = r.why;
    if (rc < 0)
        return fprintf(stderr, "client: %s: %s\n", j.address, weir_strerror(rc)), 2;
    printf("sent %d bytes, got %" PRIu64 "\n", BYTES, r.got);
    return r.got != BYTES;
}
