/* Ports: listeners with a backlog, and bound datagram sockets. */
#include "io/sim/net.h"
#include "base/assert.h"
#include <string.h>

enum { SYN_TRIES = 6, SYN_RETRY_NS = 200000000 };

static bool is_any(const struct weir_addr *a) {
    static const uint8_t zero[16];
    return (a->kind == WEIR__ADDR_IP4 && !memcmp(a->ip4, zero, 4)) ||
           (a->kind == WEIR__ADDR_IP6 && !memcmp(a->ip6, zero, 16));
}

/* Would a packet for `to` reach a port at `at`? */
static bool reaches(const struct weir_addr *at, const struct weir_addr *to) {
    if (is_any(at) && at->kind == to->kind)
        return at->port == to->port;
    return weir__base_addr_equal(at, to);
}

static bool clashes(const struct weir_addr *a, const struct weir_addr *b) {
    return reaches(a, b) || reaches(b, a);
}

static bool in_use(struct weir__iosim_net *net, const struct weir__io_listen *o,
                   const struct weir_addr *at) {
    weir__base_list_each(link, &net->ports) {
        struct weir__iosim_port *p = container_of(link, struct weir__iosim_port, link);
        bool together = p->reuse_port && o->reuse_port && !o->claim_ms;
        if (p->datagram == o->datagram && clashes(&p->addr, at) && !together)
            return true;
    }
    return false;
}

/* An abstract name like those that the kernel gives. */
static void draw_name(struct weir__iosim_net *net, struct weir_addr *a) {
    uint32_t name = net->names++;
    a->path_len = 6;
    for (int i = 5; i > 0; i--, name >>= 4)
        a->path[i] = "0123456789abcdef"[name & 15];
}

static void draw_port(struct weir__iosim_net *net, struct weir_addr *a) {
    if (a->kind == WEIR__ADDR_UNIX)
        return;
    a->port = net->next_port++;
    if (net->next_port < 20000)
        net->next_port = 20000;
}

int weir__iosim_port_new(struct weir__iosim_net *net, const struct weir__io_listen *o,
                         struct weir__iosim_port **out) {
    struct weir_addr at = o->addr;
    if (at.kind == WEIR__ADDR_NONE)
        return WEIR_EINVAL;
    if (at.kind == WEIR__ADDR_UNIX && at.path_len == 0)
        draw_name(net, &at);
    if (at.kind != WEIR__ADDR_UNIX && at.port == 0) {
        do {
            draw_port(net, &at);
        } while (in_use(net, o, &at));
    } else if (in_use(net, o, &at)) {
        return WEIR_EINUSE;
    }
    struct weir__iosim_port *p = weir__iosim_alloc(net, sizeof *p);
    p->net = net;
    p->addr = at;
    p->datagram = o->datagram;
    p->gro = o->gro;
    weir__base_list_init(&p->socks);
    p->reuse_port = o->reuse_port;
    p->backlog = o->backlog > 0 ? (uint32_t)o->backlog : 4096;
    if (p->backlog > net->opt.backlog_max)
        p->backlog = net->opt.backlog_max;
    weir__base_list_push_back(&net->ports, &p->link);
    *out = p;
    return 0;
}

struct weir__iosim_end *weir__iosim_port_pop(struct weir__iosim_port *p) {
    struct weir__iosim_end *e = p->queue;
    if (e) {
        p->queue = e->queue_next;
        e->queue_next = NULL;
        p->queued--;
    }
    return e;
}

/* Connections that nobody accepted are reset, as a kernel does. */
void weir__iosim_port_free(struct weir__iosim_port *p) {
    must(weir__base_list_empty(&p->socks));
    struct weir__iosim_end *e;
    while ((e = weir__iosim_port_pop(p)))
        weir__iosim_end_close(e, true);
    while (p->dgrams) {
        struct weir__iosim_seg *s = p->dgrams;
        p->dgrams = s->next;
        weir__iosim_seg_free(p->net, s);
    }
    weir__base_list_remove(&p->link);
    weir_mem_free(p);
}

/* The port a packet goes to: chance spreads over those that share the address. */
static struct weir__iosim_port *route(struct weir__iosim_net *net, const struct weir_addr *to,
                                      bool datagram) {
    uint64_t n = 0;
    struct weir__iosim_port *chosen = NULL;
    weir__base_list_each(link, &net->ports) {
        struct weir__iosim_port *p = container_of(link, struct weir__iosim_port, link);
        if (p->datagram == datagram && reaches(&p->addr, to) && weir__iosim_draw(net, ++n) == 0)
            chosen = p;
    }
    return chosen;
}

static void tell(struct weir__iosim_port *p) {
    weir__base_list_each(l, &p->socks)
        weir__iosim_sock_look(container_of(l, struct weir__iosim_sock, port_link));
}

/* --- connecting ------------------------------------------------------------------------------ */

static void send_syn(struct weir__iosim_stream *st, uint64_t at_ns, uint32_t tries) {
    weir__iosim_end_event(&st->end[1], at_ns,
                          (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_SYN, .n = tries});
}

void weir__iosim_connect(struct weir__iosim_stream *st, const struct weir_addr *to) {
    struct weir__iosim_net *net = st->net;
    struct weir_addr *from = &st->end[0].local;
    st->end[1].local = *to;
    from->kind = to->kind;
    if (to->kind == WEIR__ADDR_IP4)
        memcpy(from->ip4, (uint8_t[4]){to->ip4[0] == 127 ? 127 : 10, 0, 0, 1}, 4);
    else if (to->kind == WEIR__ADDR_IP6)
        from->ip6[15] = 1;
    draw_port(net, from);
    send_syn(st, net->now_ns + weir__iosim_latency_ns(net), 0);
}

static void answer(struct weir__iosim_stream *st, int code) {
    weir__iosim_end_event(&st->end[0], weir__iosim_end_arrival_ns(&st->end[1], 0),
                          (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_UP, .code = code});
}

static void enqueue(struct weir__iosim_port *p, struct weir__iosim_end *e) {
    e->up = true;
    if (p->raw) {
        weir__iosim_peer_queue(p->raw, e);
        return;
    }
    if (p->queue)
        p->queue_last->queue_next = e;
    else
        p->queue = e;
    p->queue_last = e;
    p->queued++;
    tell(p);
}

void weir__iosim_syn(struct weir__iosim_stream *st, uint32_t tries) {
    struct weir__iosim_net *net = st->net;
    struct weir__iosim_port *p = route(net, &st->end[1].local, false);
    if (st->end[0].closed) {
        st->end[1].closed = true;
    } else if (!p || weir__base_rng_chance_ppm(&net->rng, net->opt.refuse_ppm)) {
        weir__iosim_fault(net, WEIR__IOSIM_REFUSED);
        answer(st, WEIR_EREFUSED);
    } else if (p->queued < p->backlog) {
        enqueue(p, &st->end[1]);
        answer(st, 0);
    } else {
        weir__iosim_fault(net, WEIR__IOSIM_BACKLOG_FULL);
        if (tries + 1 < SYN_TRIES)
            send_syn(st, net->now_ns + ((uint64_t)SYN_RETRY_NS << tries), tries + 1);
        else
            answer(st, WEIR_ETIMEDOUT);
    }
}

/* --- datagrams ------------------------------------------------------------------------------- */

void weir__iosim_dgram_send(struct weir__iosim_port *from, struct weir__iosim_seg *seg) {
    struct weir__iosim_net *net = from->net;
    uint64_t at = net->now_ns + weir__iosim_latency_ns(net);
    bool lost = weir__base_rng_chance_ppm(&net->rng, net->opt.loss_ppm);
    bool overtakes = weir__base_rng_chance_ppm(&net->rng, net->opt.reorder_ppm);
    if (lost) {
        weir__iosim_fault(net, WEIR__IOSIM_DGRAM_LOST);
        weir__iosim_seg_free(net, seg);
        return;
    }
    if (at <= from->last_arrival_ns) {
        if (overtakes)
            weir__iosim_fault(net, WEIR__IOSIM_DGRAM_REORDERED);
        else
            at = from->last_arrival_ns + 1;
    }
    if (at > from->last_arrival_ns)
        from->last_arrival_ns = at;
    weir__iosim_at(net, at, (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_DGRAM, .seg = seg});
}

void weir__iosim_dgram_arrive(struct weir__iosim_net *net, struct weir__iosim_seg *seg) {
    struct weir__iosim_port *p = route(net, &seg->route->to, true);
    if (!p || p->queued == WEIR__IOSIM_DGRAMS_MAX) {
        weir__iosim_fault(net, WEIR__IOSIM_DGRAM_LOST);
        weir__iosim_seg_free(net, seg);
        return;
    }
    if (p->dgrams)
        p->dgrams_last->next = seg;
    else
        p->dgrams = seg;
    p->dgrams_last = seg;
    p->queued++;
    tell(p);
}
