/* A door: what is ready, what has ended, and the turn. */
#include "io/sim/net.h"
#include "base/assert.h"

int weir__iosim_door_new(struct weir__iosim_net *net, const struct weir__io_config *c,
                         struct weir__io **out) {
    struct weir__iosim_door *d = weir_mem_new(net->mem, sizeof *d);
    if (!d)
        return WEIR_ENOMEM;
    d->io.ops = &weir__iosim_ops;
    d->io.mem = c->mem;
    d->io.slots = c->slots;
    d->net = net;
    d->index = net->doors++;
    weir__base_rng_seed(&d->entropy, net->opt.seed * 31 + d->index + 1);
    weir__base_list_init(&d->all);
    *out = &d->io;
    return 0;
}

static struct weir__iosim_door *of(struct weir__io *io) {
    return container_of(io, struct weir__iosim_door, io);
}

void weir__iosim_door_free(struct weir__io *io) {
    struct weir__iosim_door *d = of(io);
    struct weir__base_link *link;
    while ((link = weir__base_list_first(&d->all)))
        weir__iosim_sock_forget(container_of(link, struct weir__iosim_sock, door_link));
    d->net->doors--;
    weir_mem_free(d->ready);
    weir_mem_free(d->terminals);
    weir_mem_free(d);
}

/* --- the two sets ---------------------------------------------------------------------------- */

void weir__iosim_door_ready(struct weir__iosim_sock *s, bool yes) {
    struct weir__iosim_door *d = s->door;
    if (yes == (s->ready_at != 0))
        return;
    if (yes) {
        d->ready = weir__iosim_room(d->net, d->ready, d->n_ready, &d->cap_ready);
        d->ready[d->n_ready++] = s;
        s->ready_at = d->n_ready;
    } else {
        struct weir__iosim_sock *moved = d->ready[--d->n_ready];
        d->ready[s->ready_at - 1] = moved;
        moved->ready_at = s->ready_at;
        s->ready_at = 0;
    }
}

void weir__iosim_door_terminal(struct weir__iosim_sock *s, bool yes) {
    struct weir__iosim_door *d = s->door;
    if (yes == (s->terminal_at != 0))
        return;
    if (yes) {
        d->terminals = weir__iosim_room(d->net, d->terminals, d->n_terminals, &d->cap_terminals);
        d->terminals[d->n_terminals++] = s;
        s->terminal_at = d->n_terminals;
    } else {
        struct weir__iosim_sock *moved = d->terminals[--d->n_terminals];
        d->terminals[s->terminal_at - 1] = moved;
        moved->terminal_at = s->terminal_at;
        s->terminal_at = 0;
    }
}

/* --- turning --------------------------------------------------------------------------------- */

static void trace(struct weir__iosim_door *d, uint64_t serial, const struct weir__io_done *o) {
    struct weir__iosim_net *net = d->net;
    weir__iosim_fold(net, (uint64_t)d->index << 56 | serial << 8 | (uint64_t)o->kind << 2 |
                              (uint64_t)o->last << 1 | o->more);
    weir__iosim_fold(net, (uint64_t)(int64_t)o->code);
    weir__iosim_fold(net, o->count ^ (uint64_t)o->handle << 32 ^ (uint64_t)o->slice.n << 48);
    weir__iosim_fold(net, net->now_ns);
    weir__iosim_fold_bytes(net, o->slice.p, o->slice.n);
}

bool weir__iosim_door_next(struct weir__io *io, struct weir__io_done *out) {
    struct weir__iosim_door *d = of(io);
    bool got = false;
    while (!got && (d->n_terminals || d->n_ready)) {
        *out = (struct weir__io_done){0};
        bool terminal = d->n_terminals > 0;
        struct weir__iosim_sock *s = terminal
                                         ? d->terminals[weir__iosim_draw(d->net, d->n_terminals)]
                                         : d->ready[weir__iosim_draw(d->net, d->n_ready)];
        uint64_t serial = s->serial;
        out->user = s->base.user;
        if (terminal)
            weir__iosim_sock_yield(s, out);
        got = terminal || weir__iosim_sock_receive(s, out);
        if (got) {
            weir__io_count(&io->stats.events, 1);
            trace(d, serial, out);
        }
    }
    return got;
}

int weir__iosim_door_start(struct weir__io *io) {
    (void)io;
    return 0;
}

/* Sleeping is the driver's: here it is only said whether it did, or would have. */
int weir__iosim_door_wait(struct weir__io *io, uint64_t until_ns) {
    struct weir__iosim_door *d = of(io);
    bool idle = !d->woken && !d->n_terminals && !d->n_ready && until_ns > d->net->now_ns;
    bool sleeps = idle || d->asleep;
    d->woken = d->asleep = false;
    d->until_ns = until_ns;
    weir__io_count(&io->stats.waits, 1);
    weir__io_count(&io->stats.sleeps, sleeps);
    return sleeps;
}

void weir__iosim_door_wake(struct weir__io *io) {
    of(io)->woken = true;
}

uint64_t weir__iosim_door_now(struct weir__io *io) {
    return of(io)->net->now_ns;
}

uint64_t weir__iosim_door_entropy(struct weir__io *io) {
    return weir__base_rng_next(&of(io)->entropy);
}

bool weir__iosim_due(const struct weir__io *io) {
    const struct weir__iosim_door *d = container_of(io, struct weir__iosim_door, io);
    return d->woken || d->n_terminals || d->n_ready;
}

void weir__iosim_sleep(struct weir__io *io) {
    of(io)->asleep = true;
}

uint64_t weir__iosim_until(const struct weir__io *io) {
    return container_of(io, struct weir__iosim_door, io)->until_ns;
}
