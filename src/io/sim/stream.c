/* Streams: two ends, each with input that arrived and a window for what it sends.
 *
 *   sender     put: used += n, transit += n             EV_WINDOW: used -= n, go on
 *               |                                         ^
 *   network     EV_SEGMENT, in order, delayed             | delayed
 *               v                                         |
 *   receiver   transit -= n, in += n -----> taken by a receive, or parked
 *
 * Input ends with FIN, or with an error. RST may overtake segments of its direction: those are
 * then lost, what arrived stays. */
#include "io/sim/net.h"
#include "base/assert.h"
#include <string.h>

struct weir__iosim_stream *weir__iosim_stream_new(struct weir__iosim_net *net) {
    struct weir__iosim_stream *st = weir__iosim_alloc(net, sizeof *st);
    st->net = net;
    for (uint8_t i = 0; i < 2; i++) {
        st->end[i].stream = st;
        st->end[i].side = i;
        st->end[i].window = net->opt.window_bytes;
    }
    weir__base_list_push_back(&net->streams, &st->link);
    return st;
}

struct weir__iosim_end *weir__iosim_end_other(struct weir__iosim_end *e) {
    return &e->stream->end[!e->side];
}

static void drop_input(struct weir__iosim_end *e) {
    while (e->in) {
        struct weir__iosim_seg *s = e->in;
        e->in = s->next;
        weir__iosim_seg_free(e->stream->net, s);
    }
    e->in_last = NULL;
    e->in_bytes = e->parked = 0;
}

void weir__iosim_stream_look(struct weir__iosim_stream *st) {
    if (!st->end[0].closed || !st->end[1].closed || st->events)
        return;
    drop_input(&st->end[0]);
    drop_input(&st->end[1]);
    weir__base_list_remove(&st->link);
    weir_mem_free(st);
}

struct weir__iosim_seg *weir__iosim_seg_new(struct weir__iosim_net *net, size_t n) {
    struct weir__iosim_seg *s = weir__iosim_alloc(net, sizeof *s + n);
    s->n = (uint32_t)n;
    return s;
}

void weir__iosim_seg_free(struct weir__iosim_net *net, struct weir__iosim_seg *s) {
    for (uint32_t i = 0; i < s->n_files; i++)
        weir__iosim_file_unref(net, s->files[i], false);
    weir_mem_free(s->files);
    weir_mem_free(s->route);
    weir_mem_free(s);
}

void weir__iosim_end_event(struct weir__iosim_end *to, uint64_t at_ns, struct weir__iosim_event e) {
    e.object = to->stream;
    e.side = to->side;
    to->stream->events++;
    weir__iosim_at(to->stream->net, at_ns, e);
}

/* --- sending --------------------------------------------------------------------------------- */

uint64_t weir__iosim_end_arrival_ns(struct weir__iosim_end *from, size_t n) {
    struct weir__iosim_net *net = from->stream->net;
    uint64_t at = net->now_ns + weir__iosim_latency_ns(net);
    if (net->opt.bytes_per_s) {
        uint64_t start = from->last_arrival_ns > net->now_ns ? from->last_arrival_ns : net->now_ns;
        uint64_t done = start + n * UINT64_C(1000000000) / net->opt.bytes_per_s;
        at = at > done ? at : done;
    }
    if (at <= from->last_arrival_ns)
        at = from->last_arrival_ns + 1;
    if (n)
        weir__iosim_fault(net, WEIR__IOSIM_DELAY);
    return from->last_arrival_ns = at;
}

size_t weir__iosim_end_cut(struct weir__iosim_end *e, uint64_t left) {
    struct weir__iosim_net *net = e->stream->net;
    uint64_t room = e->window - e->used,
             n = left < net->opt.segment_max ? left : net->opt.segment_max;
    if (n > room)
        n = room;
    if (!n) {
        weir__iosim_fault(net, WEIR__IOSIM_BLOCKED);
        return 0;
    }
    uint64_t how = weir__iosim_draw(net, 8);
    if (how < 3)
        n = weir__iosim_draw(net, n) + 1;
    else if (how == 3)
        n = weir__iosim_draw(net, n < 4 ? n : 4) + 1;
    if (n < left)
        weir__iosim_fault(net, WEIR__IOSIM_CUT);
    return (size_t)n;
}

void weir__iosim_end_put(struct weir__iosim_end *e, struct weir__iosim_seg *seg) {
    struct weir__iosim_net *net = e->stream->net;
    must(!e->closed && !e->fin_sent && !e->error);
    must(e->used + seg->n <= e->window || e->used == 0); /* a message with handles is never cut */
    e->used += seg->n;
    e->transit += seg->n;
    struct weir__iosim_end *to = weir__iosim_end_other(e);
    weir__iosim_end_event(to, weir__iosim_end_arrival_ns(e, seg->n),
                          (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_SEGMENT, .seg = seg});
    if (weir__base_rng_chance_ppm(&net->rng, net->opt.reset_ppm)) {
        weir__iosim_end_reset(e, WEIR__IOSIM_RESET);
        weir__iosim_end_event(
            e, net->now_ns + weir__iosim_latency_ns(net),
            (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_RESET, .code = WEIR_ERESET});
    }
}

void weir__iosim_end_fin(struct weir__iosim_end *e) {
    if (e->fin_sent || e->error)
        return;
    e->fin_sent = true;
    weir__iosim_end_event(weir__iosim_end_other(e), weir__iosim_end_arrival_ns(e, 0),
                          (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_FIN});
}

void weir__iosim_end_reset(struct weir__iosim_end *e, enum weir__iosim_fault why) {
    struct weir__iosim_net *net = e->stream->net;
    struct weir__iosim_end *to = weir__iosim_end_other(e);
    if (to->closed || to->error)
        return;
    weir__iosim_fault(net, why);
    uint64_t flying = e->last_arrival_ns > net->now_ns ? e->last_arrival_ns - net->now_ns : 0;
    uint64_t at = net->now_ns + weir__iosim_draw(net, flying + 1) + weir__iosim_latency_ns(net);
    weir__iosim_end_event(
        to, at, (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_RESET, .code = WEIR_ERESET});
}

void weir__iosim_end_close(struct weir__iosim_end *e, bool abort) {
    if (e->closed)
        return;
    if (e->up && !e->error) {
        if (abort)
            weir__iosim_end_reset(e, WEIR__IOSIM_RESET_SCRIPT);
        else if (e->in_bytes > e->parked)
            weir__iosim_end_reset(e, WEIR__IOSIM_RESET_UNREAD);
        else
            weir__iosim_end_fin(e);
    }
    e->closed = true;
    e->owner = NULL;
    e->owner_kind = WEIR__IOSIM_NOBODY;
    drop_input(e);
    weir__iosim_stream_look(e->stream);
}

/* --- receiving ------------------------------------------------------------------------------- */

static void give_window(struct weir__iosim_end *e, uint64_t n) {
    struct weir__iosim_end *to = weir__iosim_end_other(e);
    struct weir__iosim_net *net = e->stream->net;
    if (n && !to->closed)
        weir__iosim_end_event(
            to, net->now_ns + weir__iosim_latency_ns(net),
            (struct weir__iosim_event){.kind = WEIR__IOSIM_EV_WINDOW, .n = (uint32_t)n});
}

size_t weir__iosim_end_take(struct weir__iosim_end *e, uint8_t *out, size_t n) {
    size_t got = 0;
    while (got < n && e->in) {
        struct weir__iosim_seg *s = e->in;
        size_t part = s->n - s->off < n - got ? s->n - s->off : n - got;
        memcpy(out + got, s->data + s->off, part);
        s->off += (uint32_t)part;
        got += part;
        if (s->off < s->n)
            break;
        e->in = s->next;
        if (!e->in)
            e->in_last = NULL;
        weir__iosim_seg_free(e->stream->net, s);
    }
    uint64_t from_parked = e->parked < got ? e->parked : got;
    e->parked -= from_parked;
    e->in_bytes -= got;
    give_window(e, got - from_parked);
    return got;
}

bool weir__iosim_end_park(struct weir__iosim_end *e) {
    uint64_t n = weir__iosim_draw(e->stream->net, e->in_bytes - e->parked + 1);
    e->parked += n;
    give_window(e, n);
    return n > 0;
}

/* --- events ---------------------------------------------------------------------------------- */

static void tell_in(struct weir__iosim_end *e) {
    if (e->owner_kind == WEIR__IOSIM_SOCK)
        weir__iosim_sock_look(e->owner);
    else if (e->owner_kind == WEIR__IOSIM_PEER)
        weir__iosim_peer_in(e->owner);
}

static void tell_out(struct weir__iosim_end *e) {
    if (e->owner_kind == WEIR__IOSIM_SOCK)
        weir__iosim_sock_push(e->owner);
    else if (e->owner_kind == WEIR__IOSIM_PEER)
        weir__iosim_peer_out(e->owner);
}

static void segment_arrives(struct weir__iosim_end *e, struct weir__iosim_seg *seg) {
    weir__iosim_end_other(e)->transit -= seg->n;
    if (e->closed || e->error) {
        if (!e->error)
            weir__iosim_end_reset(e, WEIR__IOSIM_RESET_LATE);
        weir__iosim_seg_free(e->stream->net, seg);
        return;
    }
    must(!e->in_fin);
    if (e->in_last)
        e->in_last->next = seg;
    else
        e->in = seg;
    e->in_last = seg;
    e->in_bytes += seg->n;
    tell_in(e);
}

static void breaks(struct weir__iosim_end *e, int code) {
    if (e->closed || e->error)
        return;
    e->error = code;
    tell_in(e);
    tell_out(e);
}

static void comes_up(struct weir__iosim_end *e, int code) {
    if (code < 0) /* nobody is there: the other side never was */
        weir__iosim_end_other(e)->closed = true;
    if (e->closed) {
        if (code == 0)
            weir__iosim_end_reset(e, WEIR__IOSIM_RESET_LATE);
        return;
    }
    if (e->error)
        code = e->error;
    e->up = code == 0;
    e->error = code;
    if (e->owner_kind == WEIR__IOSIM_SOCK)
        weir__iosim_sock_up(e->owner, code);
    else if (e->owner_kind == WEIR__IOSIM_PEER)
        weir__iosim_peer_up(e->owner, code);
}

void weir__iosim_stream_event(struct weir__iosim_net *net, const struct weir__iosim_event *ev) {
    (void)net;
    struct weir__iosim_stream *st = ev->object;
    struct weir__iosim_end *e = &st->end[ev->side];
    switch (ev->kind) { /* the event is counted until its end: telling may close both sides */
    case WEIR__IOSIM_EV_SEGMENT: segment_arrives(e, ev->seg); break;
    case WEIR__IOSIM_EV_FIN:
        if (!e->closed && !e->error) {
            e->in_fin = true;
            tell_in(e);
        }
        break;
    case WEIR__IOSIM_EV_RESET: breaks(e, ev->code); break;
    case WEIR__IOSIM_EV_WINDOW:
        e->used -= ev->n;
        if (!e->closed)
            tell_out(e);
        break;
    case WEIR__IOSIM_EV_SYN: weir__iosim_syn(st, ev->n); break;
    case WEIR__IOSIM_EV_UP: comes_up(e, ev->code); break;
    }
    st->events--;
    weir__iosim_stream_look(st);
}
