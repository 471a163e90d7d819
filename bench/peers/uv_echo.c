/* libuv at its best: writes are tried at once and queued only when the socket is full. */
#include "peer.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct conn {
    uv_tcp_t tcp;
    enum peer_work work;
    size_t in_count;
    uint8_t *in;
};

struct rest {
    uv_write_t request;
    uint8_t bytes[];
};

static uint8_t shared_in[WIRE_BUFFER_BYTES];

static void on_closed(uv_handle_t *handle) {
    struct conn *conn = handle->data;
    if (conn->in != shared_in)
        free(conn->in);
    free(conn);
}

static void conn_close(struct conn *conn) {
    if (!uv_is_closing((uv_handle_t *)&conn->tcp))
        uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

static void on_written(uv_write_t *request, int status) {
    struct conn *conn = request->handle->data;
    if (status < 0)
        conn_close(conn);
    free(request);
}

static void conn_write(struct conn *conn, uint8_t *bytes, size_t count) {
    uv_buf_t part = uv_buf_init((char *)bytes, (unsigned)count);
    int sent = count ? uv_try_write((uv_stream_t *)&conn->tcp, &part, 1) : 0;
    if (sent == (int)count)
        return;
    if (sent == UV_EAGAIN)
        sent = 0;
    size_t left = sent < 0 ? 0 : count - (size_t)sent;
    struct rest *rest = sent < 0 ? NULL : malloc(sizeof *rest + left);
    if (!rest) {
        conn_close(conn);
        return;
    }
    memcpy(rest->bytes, bytes + sent, left);
    part = uv_buf_init((char *)rest->bytes, (unsigned)left);
    if (uv_write(&rest->request, (uv_stream_t *)&conn->tcp, &part, 1, on_written)) {
        free(rest);
        conn_close(conn);
    }
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room) {
    struct conn *conn = handle->data;
    (void)suggested;
    *room = uv_buf_init((char *)conn->in + conn->in_count,
                        (unsigned)(WIRE_BUFFER_BYTES - conn->in_count));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room) {
    struct conn *conn = stream->data;
    (void)room;
    if (got <= 0) {
        if (got < 0)
            conn_close(conn);
        return;
    }
    if (conn->work == PEER_ECHO) {
        conn_write(conn, conn->in, (size_t)got);
        return;
    }
    conn->in_count += (size_t)got;
    ssize_t done = wire_echo(conn->in, conn->in_count);
    if (done < 0) {
        conn_close(conn);
        return;
    }
    conn_write(conn, conn->in, (size_t)done);
    conn->in_count -= (size_t)done;
    if (conn->in_count && done)
        memmove(conn->in, conn->in + done, conn->in_count);
}

static void on_connection(uv_stream_t *listener, int status) {
    const struct peer_options *options = listener->data;
    struct conn *conn = status < 0 ? NULL : malloc(sizeof *conn);
    if (!conn)
        return;
    conn->work = options->work;
    conn->in_count = 0;
    conn->in = conn->work == PEER_ECHO ? shared_in : malloc(WIRE_BUFFER_BYTES);
    uv_tcp_init(listener->loop, &conn->tcp);
    conn->tcp.data = conn;
    if (!conn->in || uv_accept(listener, (uv_stream_t *)&conn->tcp)) {
        conn_close(conn);
        return;
    }
    uv_read_start((uv_stream_t *)&conn->tcp, on_room, on_read);
}

int main(int argc, char **argv) {
    char version[64];
    struct peer_options options;
    uv_tcp_t listener;
    snprintf(version, sizeof version, "libuv %s", uv_version_string());
    peer_options_parse(argc, argv, PEER_ECHO | PEER_LINKD, version, &options);
    int fd = peer_bind(&options);
    uv_tcp_init(uv_default_loop(), &listener);
    listener.data = &options;
    if (uv_tcp_open(&listener, fd) ||
        uv_listen((uv_stream_t *)&listener, PEER_BACKLOG, on_connection))
        peer_die("uv_listen");
    peer_announce(fd);
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
