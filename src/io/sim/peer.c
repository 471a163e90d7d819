/* Raw scripted peers: the other side of a connection, with no loop and no manners. */
#include "io/sim/net.h"
#include "base/assert.h"
#include <string.h>

struct bytes {
    uint8_t *p;
    size_t n, cap;
};

struct weir__iosim_peer {
    struct weir__base_link link; /* in net->peers */
    struct weir__iosim_net *net;
    struct weir__iosim_end *end;   /* NULL once closed, and for a listener */
    struct weir__iosim_port *port; /* a listener */
    struct weir__iosim_peer *accepted, *accepted_next;
    struct bytes out, got;
    uint64_t sent, reset_at;
    uint32_t sip_bytes, sip_us; /* sip_us 0: as it comes; sip_bytes 0: not at all */
    bool stopped, sipping, shut;
    int state;
};

static void append(struct weir__iosim_net *net, struct bytes *b, const void *data, size_t n) {
    if (b->n + n > b->cap) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap < b->n + n)
            cap *= 2;
        uint8_t *p = weir__iosim_alloc(net, cap);
        if (b->n)
            memcpy(p, b->p, b->n);
        weir_mem_free(b->p);
        b->p = p;
        b->cap = cap;
    }
    if (data)
        memcpy(b->p + b->n, data, n);
}

static struct weir__iosim_peer *peer_new(struct weir__iosim_net *net, struct weir__iosim_end *e) {
    struct weir__iosim_peer *p = weir__iosim_alloc(net, sizeof *p);
    p->net = net;
    p->end = e;
    p->reset_at = UINT64_MAX;
    if (e) {
        e->owner_kind = WEIR__IOSIM_PEER;
        e->owner = p;
    }
    weir__base_list_push_back(&net->peers, &p->link);
    return p;
}

struct weir__iosim_peer *weir__iosim_dial(struct weir__iosim_net *net, const struct weir_addr *to) {
    struct weir__iosim_stream *st = weir__iosim_stream_new(net);
    weir__iosim_connect(st, to);
    return peer_new(net, &st->end[0]);
}

struct weir__iosim_peer *weir__iosim_peer_listen(struct weir__iosim_net *net,
                                                 const struct weir_addr *at) {
    struct weir__io_listen o = {.addr = *at, .handle = -1};
    struct weir__iosim_port *port;
    if (weir__iosim_port_new(net, &o, &port) < 0)
        return NULL;
    port->raw = peer_new(net, NULL);
    port->raw->port = port;
    return port->raw;
}

void weir__iosim_peer_queue(struct weir__iosim_peer *listener, struct weir__iosim_end *e) {
    struct weir__iosim_peer **last = &listener->accepted;
    while (*last)
        last = &(*last)->accepted_next;
    *last = peer_new(listener->net, e);
}

struct weir__iosim_peer *weir__iosim_peer_accept(struct weir__iosim_peer *listener) {
    struct weir__iosim_peer *p = listener->accepted;
    if (p) {
        listener->accepted = p->accepted_next;
        p->accepted_next = NULL;
    }
    return p;
}

static void let_go(struct weir__iosim_peer *p, bool abort) {
    struct weir__iosim_end *e = p->end;
    p->end = NULL;
    if (e)
        weir__iosim_end_close(e, abort);
}

void weir__iosim_peers_free(struct weir__iosim_net *net) {
    struct weir__base_link *link;
    while ((link = weir__base_list_pop_front(&net->peers))) {
        struct weir__iosim_peer *p = container_of(link, struct weir__iosim_peer, link);
        let_go(p, true);
        if (p->port)
            weir__iosim_port_free(p->port);
        for (size_t i = 0; i < net->events.n; i++)
            if (net->events.at[i].object == p)
                net->events.at[i].object = NULL;
        weir_mem_free(p->out.p);
        weir_mem_free(p->got.p);
        weir_mem_free(p);
    }
}

/* --- sending --------------------------------------------------------------------------------- */

void weir__iosim_peer_out(struct weir__iosim_peer *p) {
    struct weir__iosim_end *e = p->end;
    if (!e || !e->up || e->error)
        return;
    uint64_t to = p->reset_at < p->out.n ? p->reset_at : p->out.n;
    while (p->sent < to) {
        size_t n = weir__iosim_end_cut(e, to - p->sent);
        if (!n)
            return;
        struct weir__iosim_seg *seg = weir__iosim_seg_new(p->net, n);
        memcpy(seg->data, p->out.p + p->sent, n);
        weir__iosim_end_put(e, seg);
        p->sent += n;
    }
    if (p->sent == p->reset_at)
        weir__iosim_peer_reset(p);
    else if (p->shut)
        weir__iosim_end_fin(e);
}

int weir__iosim_peer_send(struct weir__iosim_peer *p, const void *data, size_t n) {
    if (!p->end || p->end->error || p->shut)
        return WEIR_EGONE;
    append(p->net, &p->out, data, n);
    p->out.n += n;
    weir__iosim_peer_out(p);
    return 0;
}

void weir__iosim_peer_shutdown(struct weir__iosim_peer *p) {
    p->shut = true;
    weir__iosim_peer_out(p);
}

void weir__iosim_peer_reset(struct weir__iosim_peer *p) {
    if (!p->end)
        return;
    let_go(p, true);
    p->state = WEIR_ERESET;
}

void weir__iosim_peer_reset_at(struct weir__iosim_peer *p, uint64_t sent_bytes) {
    p->reset_at = sent_bytes;
    weir__iosim_peer_out(p);
}

void weir__iosim_peer_close(struct weir__iosim_peer *p) {
    if (p->port) {
        weir__iosim_port_free(p->port);
        p->port = NULL;
    }
    let_go(p, false);
}

uint64_t weir__iosim_peer_sent(const struct weir__iosim_peer *p) {
    return p->sent;
}

/* --- reading --------------------------------------------------------------------------------- */

static void take(struct weir__iosim_peer *p, size_t n) {
    append(p->net, &p->got, NULL, n);
    p->got.n += weir__iosim_end_take(p->end, p->got.p + p->got.n, n);
}

static void sip_later(struct weir__iosim_peer *p) {
    if (p->sipping)
        return;
    p->sipping = true;
    weir__iosim_at(p->net, p->net->now_ns + (uint64_t)p->sip_us * 1000,
                   (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_READ, .object = p});
}

void weir__iosim_peer_in(struct weir__iosim_peer *p) {
    struct weir__iosim_end *e = p->end;
    if (!e || p->stopped)
        return;
    if (e->in_bytes && p->sip_us) {
        sip_later(p);
        return;
    }
    if (e->in_bytes)
        take(p, (size_t)e->in_bytes);
    if (e->error)
        p->state = e->error;
    else if (e->in_fin)
        p->state = 1;
}

void weir__iosim_peer_sip(struct weir__iosim_peer *p) {
    if (!p) /* freed meanwhile */
        return;
    p->sipping = false;
    if (p->end && !p->stopped && p->end->in_bytes)
        take(p, p->sip_bytes < p->end->in_bytes ? p->sip_bytes : (size_t)p->end->in_bytes);
    weir__iosim_peer_in(p);
}

void weir__iosim_peer_read(struct weir__iosim_peer *p, uint32_t bytes, uint32_t every_us) {
    p->stopped = bytes == 0;
    p->sip_bytes = bytes;
    p->sip_us = every_us;
    weir__iosim_peer_in(p);
}

void weir__iosim_peer_up(struct weir__iosim_peer *p, int code) {
    if (code < 0)
        p->state = code;
    else
        weir__iosim_peer_out(p);
}

size_t weir__iosim_peer_got(const struct weir__iosim_peer *p, const uint8_t **out) {
    *out = p->got.p;
    return p->got.n;
}

int weir__iosim_peer_state(const struct weir__iosim_peer *p) {
    return p->state;
}
