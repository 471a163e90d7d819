/* What keeps its borders: datagrams, and messages with handles over unix streams. */
#include "io/sim/net.h"
#include "base/assert.h"
#include <string.h>

enum { DGRAM_BYTES_MAX = 65507 };

/* --- datagrams out --------------------------------------------------------------------------- */

static void send_one(struct weir__iosim_port *from, const struct weir__io_message *m, uint64_t off,
                     size_t n) {
    struct weir__iosim_seg *seg = weir__iosim_seg_new(from->net, n);
    must(weir_chain_read(&m->chain, off, seg->data, n) == 0);
    seg->route = weir__iosim_alloc(from->net, sizeof *seg->route);
    seg->route->to = m->to;
    seg->route->from = from->addr;
    if (from->addr.kind == WEIR__ADDR_IP4 && from->addr.ip4[0] == 0)
        memcpy(seg->route->from.ip4, (uint8_t[4]){10, 0, 0, 1}, 4);
    weir__iosim_dgram_send(from, seg);
}

static void send_message(struct weir__iosim_port *from, const struct weir__io_message *m) {
    uint64_t n = m->chain.bytes, step = m->segment_bytes ? m->segment_bytes : n, off = 0;
    do {
        uint64_t cut = n - off < step ? n - off : step;
        send_one(from, m, off, (size_t)cut);
        off += cut;
    } while (off < n);
}

/* Takes them in order up to the first that fails; returns why. */
int weir__iosim_dgrams_out(struct weir__iosim_sock *s, const struct weir__io_message *m,
                           unsigned n) {
    struct weir__iosim_net *net = s->door->net;
    for (; s->sent_bytes < n; s->sent_bytes++, m++) {
        if (m->chain.bytes > DGRAM_BYTES_MAX)
            return WEIR_ETOOBIG;
        if (weir__base_rng_chance_ppm(&net->rng, net->opt.enomem_ppm)) {
            weir__iosim_fault(net, WEIR__IOSIM_ENOMEM);
            return WEIR_ENOMEM;
        }
        send_message(s->file->port, m);
    }
    return 0;
}

/* --- datagrams in ---------------------------------------------------------------------------- */

static struct weir__iosim_seg *pop(struct weir__iosim_port *p) {
    struct weir__iosim_seg *seg = p->dgrams;
    p->dgrams = seg->next;
    p->queued--;
    return seg;
}

/* Whether the next datagram goes behind `n` bytes of datagrams of `first`'s length. */
static bool joins(const struct weir__iosim_sock *s, const struct weir__iosim_seg *first, size_t n) {
    const struct weir__iosim_port *p = s->file->port;
    const struct weir__iosim_seg *next = p->dgrams;
    return p->gro && next && first->n && next->n && next->n <= first->n && n % first->n == 0 &&
           n + next->n <= s->dgram_bytes_max &&
           weir__base_addr_equal(&first->route->from, &next->route->from) &&
           weir__iosim_coin(s->door->net, 2);
}

bool weir__iosim_dgram_one(struct weir__iosim_sock *s, struct weir__io_done *out) {
    struct weir__iosim_net *net = s->door->net;
    size_t room = s->dgram_bytes_max;
    if (weir__base_rng_chance_ppm(&net->rng, net->opt.enomem_ppm) ||
        weir_slice_new(s->door->io.mem, room, &out->slice) < 0)
        return weir__iosim_sock_no_buffer(s);
    struct weir__iosim_seg *first = pop(s->file->port);
    size_t n = first->n < room ? first->n : room;
    memcpy(out->slice.p, first->data, n);
    out->truncated = n < first->n;
    while (!out->truncated && joins(s, first, n)) {
        struct weir__iosim_seg *seg = pop(s->file->port);
        memcpy(out->slice.p + n, seg->data, seg->n);
        n += seg->n;
        out->segment_bytes = (uint16_t)first->n;
        weir__iosim_seg_free(net, seg);
    }
    out->slice.n = n;
    if (n == 0)
        weir_slice_release(&out->slice);
    out->kind = WEIR__IO_DGRAM;
    out->peer = first->route->from;
    weir__iosim_seg_free(net, first);
    weir__io_count(&s->door->io.stats.receives, 1);
    weir__io_count(&s->door->io.stats.received_bytes, n);
    return true;
}

/* --- handles --------------------------------------------------------------------------------- */

bool weir__iosim_fds_out(struct weir__iosim_sock *s, struct weir__iosim_end *e) {
    const struct weir__io_fds *m = s->send_fds;
    struct weir__iosim_net *net = s->door->net;
    if (e->window - e->used < m->n && e->used) {
        weir__iosim_fault(net, WEIR__IOSIM_BLOCKED);
        return false;
    }
    struct weir__iosim_seg *seg = weir__iosim_seg_new(net, m->n);
    memcpy(seg->data, m->data, m->n);
    seg->files = weir__iosim_alloc(net, (m->n_handles + 1) * sizeof(void *));
    for (; seg->n_files < m->n_handles; seg->n_files++) {
        struct weir__iosim_file *f = weir__iosim_handle_file(net, m->handles[seg->n_files]);
        must(f); /* they stay the caller's until the terminal */
        f->refs++;
        seg->files[seg->n_files] = f;
    }
    weir__iosim_end_put(e, seg);
    s->sent_bytes = m->n;
    weir__io_count(&s->door->io.stats.sent_bytes, m->n);
    return true;
}

/* Handles for what came; false: there is no room for them all, and then for none. */
static bool take_files(struct weir__iosim_net *net, struct weir__iosim_seg *seg,
                       struct weir__io_fds *m) {
    while (m->n_handles < seg->n_files && !weir__iosim_handles_full(net)) {
        seg->files[m->n_handles]->refs++;
        m->handles[m->n_handles] = weir__iosim_handle_new(net, seg->files[m->n_handles]);
        m->n_handles++;
    }
    if (m->n_handles == seg->n_files)
        return true;
    while (m->n_handles)
        weir__iosim_handle_close(net, m->handles[--m->n_handles], false);
    return false;
}

bool weir__iosim_fds_one(struct weir__iosim_sock *s) {
    struct weir__io_fds *m = s->recv_fds;
    struct weir__iosim_net *net = s->door->net;
    struct weir__iosim_end *e = s->file->end;
    int code = 0;
    if (e->in_bytes) {
        struct weir__iosim_seg *seg = e->in;
        size_t n = seg->n - seg->off < m->n ? seg->n - seg->off : m->n;
        if (!take_files(net, seg, m))
            code = WEIR_ETOOBIG;
        while (seg->n_files) /* what is left of its bytes comes without */
            weir__iosim_file_unref(net, seg->files[--seg->n_files], false);
        must(weir__iosim_end_take(e, m->data, n) == n);
        m->n = n;
        weir__io_count(&s->door->io.stats.receives, 1);
        weir__io_count(&s->door->io.stats.received_bytes, n);
    } else {
        code = weir__iosim_sock_over(s);
    }
    weir__iosim_sock_end(s, WEIR__IOSIM_OP_RECV, code);
    return false; /* it is a terminal now, and next() takes those first */
}
