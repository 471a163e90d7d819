/* The floor on io_uring: multishot accept, multishot receive into a ring of buffers, and answers
 * sent from the very buffer they came in. One send at a time per connection keeps their order.
 *
 *               more bytes                 buffers used up
 *      ARMED ---------------> ARMED      ARMED -----------> STARVED --a buffer is back--> ARMED
 *        | end, error, broken frame
 *        v
 *      CLOSING ----receive and send both have had their last completion----> freed
 */
#include "peer.h"
#include "ring.h"
#include "wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    /* Few and small: the kernel goes round the ring, and every round should stay in the cache. */
    ECHO_BUFFERS = 1024,
    ECHO_BUFFER_BYTES = 2 * 1024,
    FRAME_BUFFERS = 256,
    FRAME_BUFFER_BYTES = 16 * 1024, /* a linkd frame of 8 KiB fits in one */
    TAG_ACCEPT = 0,
    TAG_RECEIVE = 1,
    TAG_SEND = 2,
    TAG_CLOSE = 3,
    TAG_MASK = 3,
};

/* An answer that waits for its turn or is being sent. */
struct part {
    struct part *next;
    uint8_t *bytes; /* in buffer `buffer`, or behind this struct when `buffer` is -1 */
    size_t count;
    int buffer;
};

struct conn {
    int fd;
    bool armed; /* a receive is out, or will be when a buffer is back */
    bool closing;
    struct part *first, **last; /* `first` is in flight */
    struct conn *starved_next;
    size_t in_count; /* linkd: bytes of an unfinished frame */
    uint8_t in[];
};

struct server {
    struct peer_options options;
    struct ring ring;
    int listener;
    struct conn *starved;
    unsigned buffers_out;            /* received into and not back in the ring yet */
    struct part parts[ECHO_BUFFERS]; /* part i belongs to buffer i */
    uint8_t out[WIRE_DIGEST_OUT_BYTES];
};

static struct io_uring_sqe *prepare(struct server *server, int op, int fd, void *owner, int tag) {
    struct io_uring_sqe *entry = ring_entry(&server->ring);
    entry->opcode = (uint8_t)op;
    entry->fd = fd;
    entry->user_data = (uint64_t)(uintptr_t)owner | (uint64_t)tag;
    return entry;
}

static void accept_arm(struct server *server) {
    prepare(server, IORING_OP_ACCEPT, server->listener, NULL, TAG_ACCEPT)->ioprio =
        IORING_ACCEPT_MULTISHOT;
}

static void receive_arm(struct server *server, struct conn *conn) {
    struct io_uring_sqe *receive = prepare(server, IORING_OP_RECV, conn->fd, conn, TAG_RECEIVE);
    receive->ioprio = IORING_RECV_MULTISHOT;
    receive->flags = IOSQE_BUFFER_SELECT;
    conn->armed = true;
}

static void send_first(struct server *server, struct conn *conn) {
    struct io_uring_sqe *send = prepare(server, IORING_OP_SEND, conn->fd, conn, TAG_SEND);
    send->addr = (uint64_t)(uintptr_t)conn->first->bytes;
    send->len = (uint32_t)conn->first->count;
    send->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
}

static void buffer_return(struct server *server, unsigned buffer) {
    ring_buffer_return(&server->ring, buffer);
    server->buffers_out--;
    struct conn *next = server->starved;
    server->starved = NULL;
    while (next) {
        struct conn *conn = next;
        next = conn->starved_next;
        receive_arm(server, conn);
    }
}

static void conn_starve(struct server *server, struct conn *conn) {
    conn->armed = true;
    conn->starved_next = server->starved;
    server->starved = conn;
}

static void part_free(struct server *server, struct part *part) {
    if (part->buffer < 0)
        free(part);
    else
        buffer_return(server, (unsigned)part->buffer);
}

static void part_queue(struct server *server, struct conn *conn, struct part *part) {
    bool idle = !conn->first;
    part->next = NULL;
    *conn->last = part;
    conn->last = &part->next;
    if (idle)
        send_first(server, conn);
}

static struct part *part_copy(const uint8_t *bytes, size_t count) {
    struct part *part = malloc(sizeof *part + count);
    if (!part)
        peer_die("malloc");
    *part = (struct part){.bytes = (uint8_t *)(part + 1), .count = count, .buffer = -1};
    memcpy(part->bytes, bytes, count);
    return part;
}

/* Idempotent: frees the connection once neither a receive nor a send is out. */
static void conn_close(struct server *server, struct conn *conn) {
    if (!conn->closing && conn->armed)
        shutdown(conn->fd, SHUT_RD); /* ends the receive */
    conn->closing = true;
    if (conn->armed || conn->first)
        return;
    prepare(server, IORING_OP_CLOSE, conn->fd, NULL, TAG_CLOSE)->flags = IOSQE_CQE_SKIP_SUCCESS;
    free(conn);
}

/* The usual case: whole frames in the buffer and nothing before them. They are answered in place.
 */
static bool answer_in_place(struct server *server, struct conn *conn, struct part *part) {
    if (server->options.work == PEER_DIGEST || conn->in_count)
        return false;
    struct wire_head head;
    size_t whole = 0;
    for (ssize_t frame; (frame = wire_frame(part->bytes + whole, part->count - whole, &head)) > 0;)
        whole += (size_t)frame;
    if (whole < part->count || wire_echo(part->bytes, part->count) < 0)
        return false;
    part_queue(server, conn, part);
    return true;
}

static bool answer_copied(struct server *server, struct conn *conn) {
    bool digest = server->options.work == PEER_DIGEST;
    size_t out_count;
    ssize_t done = digest ? wire_digest(conn->in, conn->in_count, server->out, &out_count)
                          : wire_echo(conn->in, conn->in_count);
    if (done <= 0)
        return done == 0;
    part_queue(server, conn,
               digest ? part_copy(server->out, out_count) : part_copy(conn->in, (size_t)done));
    conn->in_count -= (size_t)done;
    memmove(conn->in, conn->in + done, conn->in_count);
    return true;
}

static bool answer_frames(struct server *server, struct conn *conn, struct part *part) {
    if (answer_in_place(server, conn, part))
        return true;
    bool alive = true;
    for (size_t from = 0; alive && from < part->count;) {
        size_t count = WIRE_BUFFER_BYTES - conn->in_count;
        if (count > part->count - from)
            count = part->count - from;
        memcpy(conn->in + conn->in_count, part->bytes + from, count);
        conn->in_count += count;
        from += count;
        alive = answer_copied(server, conn);
    }
    part_free(server, part);
    return alive;
}

static void on_received(struct server *server, struct conn *conn, const struct io_uring_cqe *done) {
    bool alive = done->res > 0;
    conn->armed = done->flags & IORING_CQE_F_MORE;
    if (done->flags & IORING_CQE_F_BUFFER) {
        unsigned buffer = done->flags >> IORING_CQE_BUFFER_SHIFT;
        server->buffers_out++;
        struct part *part = &server->parts[buffer];
        *part = (struct part){.bytes = ring_buffer(&server->ring, buffer),
                              .count = alive ? (size_t)done->res : 0,
                              .buffer = (int)buffer};
        if (!alive || conn->closing)
            part_free(server, part);
        else if (server->options.work == PEER_ECHO)
            part_queue(server, conn, part);
        else
            alive = answer_frames(server, conn, part);
    }
    bool starved = done->res == -ENOBUFS;
    if (conn->closing || (!alive && !starved))
        conn_close(server, conn);
    else if (starved && server->buffers_out)
        conn_starve(server, conn);
    else if (!conn->armed)
        receive_arm(server, conn);
}

static void on_sent(struct server *server, struct conn *conn, int result) {
    struct part *part = conn->first;
    bool whole = result == (int)part->count;
    do {
        conn->first = part->next;
        part_free(server, part);
    } while (!whole && (part = conn->first));
    if (!conn->first)
        conn->last = &conn->first;
    else
        send_first(server, conn);
    if (!whole || conn->closing)
        conn_close(server, conn);
}

static void on_accepted(struct server *server, const struct io_uring_cqe *done) {
    if (!(done->flags & IORING_CQE_F_MORE))
        accept_arm(server);
    if (done->res < 0)
        return;
    size_t in = server->options.work == PEER_ECHO ? 0 : WIRE_BUFFER_BYTES;
    struct conn *conn = malloc(sizeof *conn + in);
    if (!conn)
        peer_die("malloc");
    *conn = (struct conn){.fd = done->res};
    conn->last = &conn->first;
    receive_arm(server, conn);
}

static _Noreturn void serve(struct server *server) {
    struct io_uring_cqe done;
    for (;;) {
        ring_wait(&server->ring);
        while (ring_next(&server->ring, &done)) {
            struct conn *conn = (struct conn *)(uintptr_t)(done.user_data & ~(uint64_t)TAG_MASK);
            if ((done.user_data & TAG_MASK) == TAG_RECEIVE)
                on_received(server, conn, &done);
            else if ((done.user_data & TAG_MASK) == TAG_SEND)
                on_sent(server, conn, done.res);
            else if ((done.user_data & TAG_MASK) == TAG_ACCEPT)
                on_accepted(server, &done);
        }
    }
}

int main(int argc, char **argv) {
    static struct server server;
    peer_options_parse(argc, argv, PEER_ECHO | PEER_LINKD | PEER_DIGEST, "bare io_uring loop",
                       &server.options);
    server.listener = peer_bind(&server.options);
    if (server.options.work == PEER_ECHO)
        ring_init(&server.ring, ECHO_BUFFERS, ECHO_BUFFER_BYTES);
    else
        ring_init(&server.ring, FRAME_BUFFERS, FRAME_BUFFER_BYTES);
    if (listen(server.listener, PEER_BACKLOG))
        peer_die("listen");
    accept_arm(&server);
    peer_announce(server.listener);
    serve(&server);
}
