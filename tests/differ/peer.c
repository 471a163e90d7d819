#include "differ/differ.h"
#include "base/assert.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 64 * 1024, SIP_US = 300, SEES_ALL = UINT32_MAX };

static uint8_t bytes[PIECE];

void peer_open(struct peer *p, struct world *w, const char *address) {
    const char *port = strrchr(address, ':') + 1;
    *p = (struct peer){.world = w, .fd = -1, .sip = SEES_ALL};
    if (w->pair.net) {
        struct weir_addr to;
        const char *why;
        must(weir__base_addr_parse(address, &to, &why) == 0);
        p->sim = weir__iosim_dial(w->pair.net, &to);
        return;
    }
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, room = RCVBUF_BYTES;
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    must(p->fd >= 0);
    must(setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
    must(setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    int rc = connect(p->fd, (struct sockaddr *)&to, sizeof to);
    must(rc == 0 || errno == EINPROGRESS);
}

/* --- a kernel socket ------------------------------------------------------------------------- */

static bool lost(struct peer *p) {
    if (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)
        return false;
    p->end = PEER_BROKEN;
    return true;
}

static bool real_send(struct peer *p) {
    bool moved = false;
    while (p->sent < p->said) {
        size_t n = p->said - p->sent < PIECE ? (size_t)(p->said - p->sent) : PIECE;
        pattern_fill(bytes, p->sent, n);
        ssize_t r = send(p->fd, bytes, n, MSG_NOSIGNAL);
        if (r < 0)
            return lost(p) || moved;
        p->sent += (uint64_t)r;
        moved = true;
    }
    if (p->shut && !p->is_shut) {
        p->is_shut = true;
        (void)shutdown(p->fd, SHUT_WR); /* refused where the other side has reset */
        moved = true;
    }
    return moved;
}

static bool real_read(struct peer *p) {
    bool moved = false;
    while (p->sip && p->end == PEER_OPEN) {
        size_t cap = p->sip < PIECE ? p->sip : PIECE;
        ssize_t r = recv(p->fd, bytes, cap, 0);
        if (r < 0)
            return lost(p) || moved;
        if (r == 0)
            p->end = PEER_EOF;
        p->got_bad |= !pattern_is(bytes, p->got, (size_t)r);
        p->got += (uint64_t)r;
        moved = true;
        if (p->sip != SEES_ALL)
            break;
    }
    return moved;
}

static void real_reset(struct peer *p) {
    struct linger now = {.l_onoff = 1};
    must(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    close(p->fd);
    p->fd = -1;
}

/* --- a peer of the simulated network --------------------------------------------------------- */

static bool sim_send(struct peer *p) {
    bool moved = false;
    for (; p->sent < p->said; moved = true) {
        size_t n = p->said - p->sent < PIECE ? (size_t)(p->said - p->sent) : PIECE;
        pattern_fill(bytes, p->sent, n);
        (void)weir__iosim_peer_send(p->sim, bytes, n); /* refused: its state tells */
        p->sent += n;
    }
    if (p->shut && !p->is_shut) {
        p->is_shut = moved = true;
        weir__iosim_peer_shutdown(p->sim);
    }
    return moved;
}

static bool sim_read(struct peer *p) {
    const uint8_t *all;
    size_t n = weir__iosim_peer_got(p->sim, &all);
    int state = weir__iosim_peer_state(p->sim);
    bool moved = n > p->got;
    if (moved)
        p->got_bad |= !pattern_is(all + p->got, p->got, n - p->got);
    p->got = n;
    if (state != 0 && p->end == PEER_OPEN) {
        p->end = state < 0 ? PEER_BROKEN : PEER_EOF;
        moved = true;
    }
    return moved;
}

/* --- both ------------------------------------------------------------------------------------ */

static void set_sip(struct peer *p, uint32_t n) {
    p->sip = n;
    if (p->sim)
        weir__iosim_peer_read(p->sim, n, n == SEES_ALL ? 0 : SIP_US);
}

void peer_do(struct peer *p, const struct step *step) {
    switch (step->deed) {
    case PEER_SEND: p->said += step->n; break;
    case PEER_LAST:
        p->said += step->n;
        p->shut = true;
        break;
    case PING:
        p->ping_n = step->n;
        p->ping_left = step->m;
        p->ping_at = p->got;
        break;
    case PEER_STOP: set_sip(p, 0); break;
    case PEER_GO: set_sip(p, step->n ? step->n : SEES_ALL); break;
    case PEER_SHUT: p->shut = true; break;
    case PEER_RESET:
        p->end = PEER_LEFT;
        if (p->sim)
            weir__iosim_peer_reset(p->sim);
        else
            real_reset(p);
        break;
    case ABORT: set_sip(p, SEES_ALL); break;
    case CLOSE: p->shut_at_eof = true; break;
    default: break;
    }
}

static bool ping(struct peer *p) {
    if (!p->ping_left || p->got < p->ping_at)
        return false;
    p->said += p->ping_n;
    p->ping_at += p->ping_n;
    p->ping_left--;
    return true;
}

bool peer_pump(struct peer *p) {
    if (p->end == PEER_LEFT || p->end == PEER_BROKEN)
        return false;
    bool moved = p->sim ? sim_read(p) : real_read(p);
    if (p->end == PEER_BROKEN)
        return true;
    moved |= ping(p);
    if (p->end == PEER_EOF && p->shut_at_eof)
        p->shut = true;
    return (p->sim ? sim_send(p) : real_send(p)) || moved;
}

void peer_close(struct peer *p) {
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}
