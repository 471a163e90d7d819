#include "serve/handoff.h"
#include "base/assert.h"
#include "mem/raw.h"
#include "serve/listener.h"

/* --- the ring: one loop puts; its reader takes, and the writer too when it takes back --------- */

static bool ring_put(struct weir__serve_seat *seat, intptr_t handle) {
    uint32_t put = atomic_load_explicit(&seat->put, memory_order_relaxed);
    if (put - atomic_load_explicit(&seat->got, memory_order_acquire) == WEIR__SERVE_TRANSIT_MAX)
        return false;
    atomic_store_explicit(&seat->handles[put % WEIR__SERVE_TRANSIT_MAX], handle,
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&seat->transit, 1, memory_order_relaxed);
    atomic_store(&seat->put, put + 1);
    return true;
}

static bool ring_take(struct weir__serve_seat *seat, intptr_t *handle) {
    uint32_t got = atomic_load(&seat->got);
    do {
        if (got == atomic_load(&seat->put))
            return false;
        *handle = atomic_load_explicit(&seat->handles[got % WEIR__SERVE_TRANSIT_MAX],
                                       memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&seat->got, &got, got + 1));
    return true;
}

/* --- the seat's loop ------------------------------------------------------------------------- */

static void lose(struct weir__serve_seat *seat, intptr_t handle) {
    seat->loop->io->ops->drop(seat->loop->io, handle);
    weir__loop_add(&seat->loop->counters.handed_lost, 1);
}

static void come_in(struct weir__serve_seat *seat) {
    intptr_t handle;
    while (ring_take(seat, &handle)) {
        weir__loop_add(&seat->loop->counters.handed, 1);
        if (seat->state == WEIR__SERVE_SEAT_OPEN)
            weir__serve_admit(seat->from->server, seat->plan, handle);
        else
            lose(seat, handle);
        atomic_fetch_sub_explicit(&seat->transit, 1, memory_order_release);
    }
}

static void on_call(struct weir_loop *l, struct weir__loop_node *n) {
    struct weir__serve_seat *seat = container_of(n, struct weir__serve_seat, call);
    (void)l;
    /* Before the look: what is put from now on calls again. Nowhere else: a node that is in the
     * inbox must not go there twice. */
    atomic_store(&seat->called, false);
    come_in(seat);
}

static void on_bye(struct weir_loop *l, struct weir__loop_node *n) {
    (void)l;
    weir__serve_seat_leave(container_of(n, struct weir__serve_seat, bye));
}

static void stop(struct weir__loop_member *m, bool abort) {
    if (abort)
        weir__serve_seat_leave(container_of(m, struct weir__serve_seat, member));
}

void weir__serve_seat_open(struct weir__serve_seat *seat, struct weir_loop *l,
                           struct weir__chan_plan *plan) {
    seat->loop = l;
    seat->plan = plan;
    seat->call.run = on_call;
    seat->bye.run = on_bye;
    seat->member.stop = stop;
    seat->state = WEIR__SERVE_SEAT_OPEN;
    weir__loop_member_add(l, &seat->member);
}

void weir__serve_seat_leave(struct weir__serve_seat *seat) {
    if (seat->state != WEIR__SERVE_SEAT_OPEN)
        return;
    seat->state = WEIR__SERVE_SEAT_LEFT; /* for what is in the ring, its call is on its way */
    weir__chan_plan_release(seat->plan);
    seat->plan = NULL;
    weir__loop_member_remove(seat->loop, &seat->member);
}

/* --- the listener's loop --------------------------------------------------------------------- */

int weir__serve_seats_new(struct weir__serve_listener *s, unsigned n) {
    s->seats = weir__mem_raw_new(n * sizeof s->seats[0]);
    if (!s->seats)
        return WEIR_ENOMEM;
    s->n_seats = n;
    for (unsigned i = 0; i < n; i++)
        s->seats[i].from = s;
    return 0;
}

void weir__serve_seats_free(struct weir__serve_listener *s) {
    weir__mem_raw_free(s->seats);
}

/* In transit first: a handle is counted twice for a moment, never not at all. */
static uint64_t load_of(struct weir__serve_listener *s, unsigned i) {
    if (s->seats[i].gone)
        return UINT64_MAX;
    struct weir_loop *l = s->server->group->loops[i];
    uint64_t transit = atomic_load_explicit(&s->seats[i].transit, memory_order_acquire);
    return transit + atomic_load_explicit(&l->counters.channels, memory_order_relaxed);
}

/* Of equals, the next one in turn. */
static unsigned choose(struct weir__serve_listener *s) {
    unsigned best = s->loop->env.index;
    uint64_t least = UINT64_MAX;
    must(s->n_seats > 0);
    for (unsigned k = 0; k < s->n_seats; k++) {
        unsigned i = (s->turn + k) % s->n_seats;
        uint64_t load = load_of(s, i);
        if (load < least) {
            least = load;
            best = i;
        }
    }
    s->turn = (best + 1) % s->n_seats;
    return best;
}

/* Its loop has ended, and nobody will look into this ring again. */
static void take_back(struct weir__serve_listener *s, struct weir__serve_seat *seat) {
    intptr_t handle;
    seat->gone = true;
    while (ring_take(seat, &handle)) {
        weir__serve_admit(s->server, s->plan, handle);
        atomic_fetch_sub_explicit(&seat->transit, 1, memory_order_release);
    }
}

bool weir__serve_hand(struct weir__serve_listener *s, intptr_t handle) {
    struct weir__serve_seat *seat = &s->seats[choose(s)];
    if (!seat->loop || !ring_put(seat, handle))
        return false;
    if (!atomic_exchange(&seat->called, true) &&
        weir__loop_inbox_push(seat->loop->inbox, &seat->call) < 0)
        take_back(s, seat);
    return true;
}

void weir__serve_seats_end(struct weir__serve_listener *s) {
    for (unsigned i = 0; i < s->n_seats; i++) {
        struct weir__serve_seat *seat = &s->seats[i];
        if (seat->loop && weir__loop_inbox_push(seat->loop->inbox, &seat->bye) < 0)
            check(seat->state != WEIR__SERVE_SEAT_OPEN);
    }
}
