/* The floor: one thread, one epoll set, nothing else. What an engine costs is what it adds to this.
 *
 *              readable: recv, answer              writable: send the rest
 *      READING ----------------------> HOLDING ------------------------> READING
 *         ^       the socket is full      |  (nothing is read meanwhile)
 *         +----- all of it went out ------+
 */
#include "peer.h"
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_MAX = 512 };

struct conn {
    int fd;
    size_t in_count; /* linkd: bytes of an unfinished frame at the front of `in` */
    uint8_t *held;   /* an answer the socket did not take; NULL while READING */
    size_t held_from, held_count;
    uint8_t *in;
};

struct server {
    struct peer_options options;
    int listener, epoll;
    uint8_t in[WIRE_BUFFER_BYTES]; /* echo keeps nothing between reads: one buffer for all */
    uint8_t out[WIRE_DIGEST_OUT_BYTES];
};

static void conn_close(struct conn *conn) {
    close(conn->fd);
    free(conn->held);
    free(conn);
}

static bool conn_watch(const struct server *server, struct conn *conn, int how, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = conn};
    if (server->options.edge_triggered)
        event.events |= EPOLLET;
    return epoll_ctl(server->epoll, how, conn->fd, &event) == 0;
}

static bool conn_hold(const struct server *server, struct conn *conn, const uint8_t *bytes,
                      size_t count) {
    conn->held = malloc(count);
    if (!conn->held)
        return false;
    memcpy(conn->held, bytes, count);
    conn->held_from = 0;
    conn->held_count = count;
    return conn_watch(server, conn, EPOLL_CTL_MOD, EPOLLOUT);
}

static bool conn_send(const struct server *server, struct conn *conn, const uint8_t *bytes,
                      size_t count) {
    if (!count)
        return true;
    ssize_t sent = send(conn->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == (ssize_t)count)
        return true;
    if (sent < 0 && errno != EAGAIN)
        return false;
    size_t taken = sent < 0 ? 0 : (size_t)sent;
    return conn_hold(server, conn, bytes + taken, count - taken);
}

static bool conn_flush(const struct server *server, struct conn *conn) {
    ssize_t sent = send(conn->fd, conn->held + conn->held_from, conn->held_count - conn->held_from,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN;
    conn->held_from += (size_t)sent;
    if (conn->held_from < conn->held_count)
        return true;
    free(conn->held);
    conn->held = NULL;
    return conn_watch(server, conn, EPOLL_CTL_MOD, EPOLLIN);
}

static bool conn_answer_frames(struct server *server, struct conn *conn, size_t count) {
    bool digest = server->options.work == PEER_DIGEST;
    size_t out_count;
    conn->in_count += count;
    ssize_t done = digest ? wire_digest(conn->in, conn->in_count, server->out, &out_count)
                          : wire_echo(conn->in, conn->in_count);
    if (done < 0)
        return false;
    bool sent = digest ? conn_send(server, conn, server->out, out_count)
                       : conn_send(server, conn, conn->in, (size_t)done);
    conn->in_count -= (size_t)done;
    if (conn->in_count && done)
        memmove(conn->in, conn->in + done, conn->in_count);
    return sent;
}

/* Level-triggered: one receive per event. Edge-triggered: until the socket is empty, as it must. */
static bool conn_read(struct server *server, struct conn *conn) {
    bool alive;
    do {
        ssize_t got = recv(conn->fd, conn->in + conn->in_count, WIRE_BUFFER_BYTES - conn->in_count,
                           MSG_DONTWAIT);
        if (got <= 0)
            return got < 0 && errno == EAGAIN;
        alive = server->options.work == PEER_ECHO ? conn_send(server, conn, conn->in, (size_t)got)
                                                  : conn_answer_frames(server, conn, (size_t)got);
    } while (alive && server->options.edge_triggered && !conn->held);
    return alive;
}

static void accept_all(struct server *server) {
    bool keeps_input = server->options.work != PEER_ECHO;
    for (int fd; (fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        struct conn *conn = malloc(sizeof *conn + (keeps_input ? WIRE_BUFFER_BYTES : 0));
        if (!conn) {
            close(fd);
            continue;
        }
        *conn = (struct conn){.fd = fd, .in = keeps_input ? (uint8_t *)(conn + 1) : server->in};
        if (!conn_watch(server, conn, EPOLL_CTL_ADD, EPOLLIN))
            conn_close(conn);
    }
}

static _Noreturn void serve(struct server *server) {
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int count = epoll_wait(server->epoll, events, EVENTS_MAX, -1);
        if (count < 0 && errno != EINTR)
            peer_die("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct conn *conn = events[i].data.ptr;
            if (!conn)
                accept_all(server);
            else if (!(conn->held ? conn_flush(server, conn) : conn_read(server, conn)))
                conn_close(conn);
        }
    }
}

int main(int argc, char **argv) {
    static struct server server;
    peer_options_parse(argc, argv, PEER_ECHO | PEER_LINKD | PEER_DIGEST, "bare epoll loop",
                       &server.options);
    server.listener = peer_bind(&server.options);
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (listen(server.listener, PEER_BACKLOG) || server.epoll < 0 ||
        epoll_ctl(server.epoll, EPOLL_CTL_ADD, server.listener, &event))
        peer_die("listen");
    peer_announce(server.listener);
    serve(&server);
}
