/* libevent as its manual teaches it: bufferevents, and buffers moved without copying. */
#include "peer.h"
#include "wire.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdio.h>
#include <unistd.h>

static void on_end(struct bufferevent *conn, short what, void *user) {
    (void)user;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        bufferevent_free(conn);
}

static void on_bytes(struct bufferevent *conn, void *user) {
    (void)user;
    evbuffer_add_buffer(bufferevent_get_output(conn), bufferevent_get_input(conn));
}

static void on_frames(struct bufferevent *conn, void *user) {
    (void)user;
    struct evbuffer *in = bufferevent_get_input(conn);
    for (size_t count; (count = evbuffer_get_length(in)) >= WIRE_HEAD_BYTES;) {
        struct wire_head head;
        uint8_t *front = evbuffer_pullup(in, WIRE_HEAD_BYTES);
        ssize_t frame = front ? wire_frame(front, count, &head) : -1;
        if (frame < 0 || (frame && head.type != WIRE_REQUEST)) {
            bufferevent_free(conn);
            return;
        }
        if (!frame)
            return;
        front[3] = WIRE_RESPONSE;
        evbuffer_remove_buffer(in, bufferevent_get_output(conn), (size_t)frame);
    }
}

static void on_connection(struct evconnlistener *listener, evutil_socket_t fd,
                          struct sockaddr *from, int from_bytes, void *user) {
    const struct peer_options *options = user;
    (void)from;
    (void)from_bytes;
    struct bufferevent *conn = bufferevent_socket_new(evconnlistener_get_base(listener), fd,
                                                      BEV_OPT_CLOSE_ON_FREE);
    if (!conn) {
        close(fd);
        return;
    }
    bufferevent_setcb(conn, options->work == PEER_ECHO ? on_bytes : on_frames, NULL, on_end, NULL);
    bufferevent_enable(conn, EV_READ | EV_WRITE);
}

int main(int argc, char **argv) {
    char version[64];
    struct peer_options options;
    snprintf(version, sizeof version, "libevent %s", event_get_version());
    peer_options_parse(argc, argv, PEER_ECHO | PEER_LINKD, version, &options);
    int fd = peer_bind(&options);
    struct event_base *base = event_base_new();
    if (!base ||
        !evconnlistener_new(base, on_connection, &options, LEV_OPT_CLOSE_ON_FREE, PEER_BACKLOG, fd))
        peer_die("evconnlistener_new");
    peer_announce(fd);
    return event_base_dispatch(base);
}
