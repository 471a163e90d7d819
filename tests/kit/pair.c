#include "io/epoll/epoll.h"
#include "io/uring/uring.h"
#include "kit/pair.h"
#include "base/assert.h"
#include "kit/actor.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    PATIENCE_S = 30, /* of the wall, or of virtual time */
    STEPS_MAX = 50 * 1000 * 1000,
    QUIET_ROUNDS = 32, /* looks without work after which the kernel has nothing for us */
    IDLE_ROUNDS = 256, /* looks without work after which a step may wait for the kernel */
    IDLE_NS = 200000,
    TURN_US = 1, /* virtual CPU of a turn */
};

const struct pair_kind pair_kinds[] = {
    {"lt", {"lt", "lt"}},
    {"et", {"et", "et"}},
    {"defer", {"defer", "defer"}},
    {"uring", {"uring", "uring"}},
    {"sim", {"sim", "sim"}},
    {"lt-et", {"lt", "et"}},
    {"et-lt", {"et", "lt"}},
    {"defer-lt", {"defer", "lt"}},
    {"lt-defer", {"lt", "defer"}},
    {"lt-uring", {"lt", "uring"}},
    {"uring-lt", {"uring", "lt"}},
    {"et-uring", {"et", "uring"}},
    {"uring-et", {"uring", "et"}},
    {"unix-lt", {"lt", "lt"}},
    {"unix-et", {"et", "et"}},
    {"unix-uring", {"uring", "uring"}},
    {"unix-sim", {"sim", "sim"}},
    {"bare-uring", {"bare", "uring"}},
    {"unix-bare", {"bare", "bare"}},
    {NULL, {NULL, NULL}},
};

const struct pair_kind *pair_kind_of(const char *name) {
    for (const struct pair_kind *k = pair_kinds; k->name; k++)
        if (!strcmp(k->name, name))
            return k;
    return NULL;
}

void pair_fail(struct pair *p, const char *file, int line, const char *fmt, ...) {
    va_list ap;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    for (struct actor *a = p->actors; a; a = a->next)
        fprintf(stderr, "    %s: %s\n", a->who == SERVER ? "server" : "client", actor_trace(a));
    weir__loop_enter(NULL);
    longjmp(p->escape, 1);
}

/* --- opening and closing --------------------------------------------------------------------- */

static int door_new(struct pair_side *s, const char *door, const char **why) {
    struct weir__io_config c = {.mem = s->mem, .slots = &s->inbox->slots};
    c.edge = !strcmp(door, "et");
    c.defer = !strcmp(door, "defer");
    if (!strcmp(door, "sim"))
        return weir__iosim_door_new(s->pair->net, &c, &s->io);
    if (!strcmp(door, "bare")) { /* as an older kernel has it, and every send a request */
        c.uring_without = WEIR__URING_FEATURES;
        c.defer = true;
    }
    if (!strcmp(door, "uring") || !strcmp(door, "bare"))
        return weir__uring_new(&c, &s->io, why);
    return weir__epoll_new(&c, &s->io, why);
}

static int side_open(struct pair_side *s, const char *door, const char **why) {
    static const struct weir__loop_world world; /* nothing to start: the case turns the loops */
    s->mem = weir__mem_pool_new(door);
    s->inbox = weir__loop_inbox_get();
    s->group = weir__loop_group_new(&world, NULL);
    must(s->mem && s->inbox && s->group);
    weir__mem_enter(s->mem);
    int rc = door_new(s, door, why);
    if (rc < 0)
        return rc;
    struct weir__loop_env env = {.io = s->io, .mem = s->mem, .inbox = s->inbox, .group = s->group};
    must(weir__loop_new(&env, &s->loop) == 0);
    s->group->n_loops = 1;
    s->group->loops[0] = s->loop;
    weir__loop_enter(s->loop);
    must(weir__loop_start(s->loop) == 0);
    weir__loop_enter(NULL);
    return 0;
}

/* Returns how many things of its pool were still alive. */
static uint64_t side_free(struct pair_side *s) {
    weir__loop_group_disown(s->group);
    weir__mem_enter(s->mem);
    if (s->loop)
        weir__loop_free(s->loop);
    if (s->io)
        s->io->ops->free(s->io);
    weir__mem_enter(NULL);
    weir__loop_group_free(s->group);
    uint64_t used = s->inbox->slots.used;
    weir__loop_inbox_put(s->inbox);
    return weir__mem_pool_free(s->mem) + used;
}

int pair_open(struct pair *p, const struct pair_kind *k, const struct weir__iosim_options *sim,
              const char **why) {
    *p = (struct pair){.kind = k, .odd_before = weir__base_hits(WEIR__SITE_COUNT)};
    p->at_a_name = !strncmp(k->name, "unix-", 5);
    int rc = 0;
    if (!strcmp(k->door[SERVER], "sim"))
        must(weir__iosim_net_new(sim, &p->net) == 0);
    for (int i = 0; i < 2; i++)
        p->side[i].pair = p;
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = side_open(&p->side[i], k->door[i], why);
        for (int j = 0; rc < 0 && j <= i; j++)
            side_free(&p->side[j]);
    }
    return rc;
}

void pair_address(struct pair *p, char *out, size_t cap) {
    uint64_t name = p->side[SERVER].io->ops->entropy(p->side[SERVER].io);
    if (p->at_a_name) /* abstract: nothing is left in the file system */
        snprintf(out, cap, "unix:@weir-pair-%llx", (unsigned long long)name);
    else
        snprintf(out, cap, "127.0.0.1:0");
}

static void tell_site(const struct weir__base_site *site, uint64_t hits, void *user) {
    (void)user;
    if (site->kind == WEIR__SITE_COUNT)
        fprintf(stderr, "    %s:%u: %s (%llu)\n", site->file, site->line, site->text,
                (unsigned long long)hits);
}

static void demand_whole(struct pair *p, const struct actor *a) {
    if (a->opens != a->closes + a->refusals)
        fail_case(p, "opened %u (%u refused), closed %u", a->opens, a->refusals, a->closes);
    if (a->dials != a->answers)
        fail_case(p, "%u connects, %u answers", a->dials, a->answers);
}

void pair_close(struct pair *p) {
    for (int i = 0; i < 2; i++)
        weir__loop_stop(p->side[i].loop, 0);
    until(p, p->side[SERVER].ended && p->side[CLIENT].ended);
    for (const struct actor *a = p->actors; a; a = a->next)
        demand_whole(p, a);
    for (int i = 0; i < 2; i++) {
        struct weir__io_stats *s = &p->side[i].io->stats;
        if (s->opened != s->closed)
            fail_case(p, "the door opened %llu sockets and closed %llu",
                      (unsigned long long)s->opened, (unsigned long long)s->closed);
        uint64_t left = side_free(&p->side[i]);
        if (left)
            fail_case(p, "%llu things are left of the %s", (unsigned long long)left,
                      i == SERVER ? "server" : "client");
    }
    if (p->net && weir__iosim_net_free(p->net))
        fail_case(p, "sockets or handles are left in the network");
    if (weir__base_hits(WEIR__SITE_COUNT) != p->odd_before) {
        weir__base_sites(tell_site, NULL);
        fail_case(p, "something happened that should not");
    }
    p->closed = true;
}

/* --- turning --------------------------------------------------------------------------------- */

struct weir_loop *pair_act_as(struct pair *p, enum pair_who who) {
    return weir__loop_enter(p->side[who].loop);
}

uint64_t pair_now_ns(struct pair *p) {
    struct weir__io *io = p->side[SERVER].io;
    return io->ops->now(io);
}

/* True: it did something. */
static bool turn(struct pair_side *s) {
    if (s->ended)
        return false;
    weir__loop_enter(s->loop);
    if (!s->pair->net)
        s->loop->look_only = true;
    int rc = weir__loop_turn(s->loop);
    must(rc >= 0);
    s->ended = rc == 0;
    weir__loop_enter(NULL);
    if (s->pair->net)
        weir__iosim_burn(s->pair->net, TURN_US);
    actors_sample(s->pair);
    bool busy = s->loop->worked != s->worked || weir__loop_deadline(s->loop) == 0;
    s->worked = s->loop->worked;
    return busy;
}

static bool sim_due(struct pair_side *s) {
    if (s->ended)
        return false;
    uint64_t now = weir__iosim_now(s->pair->net);
    return weir__iosim_due(s->io) || weir__loop_deadline(s->loop) <= now ||
           atomic_load(&s->inbox->head);
}

/* One turn of a loop that has something to do, the seed's choice when both have. False: neither
 * has. */
static bool sim_turn(struct pair *p) {
    bool due[2] = {sim_due(&p->side[SERVER]), sim_due(&p->side[CLIENT])};
    if (!due[SERVER] && !due[CLIENT])
        return false;
    int who = due[SERVER] && due[CLIENT] ? (int)weir__iosim_draw(p->net, 2) : due[CLIENT];
    turn(&p->side[who]);
    return true;
}

static uint64_t sim_next(struct pair *p) {
    uint64_t next = weir__iosim_next_ns(p->net);
    next = p->look_at_ns < next ? p->look_at_ns : next;
    for (int i = 0; i < 2; i++) {
        uint64_t at = p->side[i].ended ? UINT64_MAX : weir__loop_deadline(p->side[i].loop);
        next = at < next ? at : next;
    }
    return next;
}

static bool sim_step(struct pair *p) {
    if (sim_turn(p))
        return true;
    uint64_t next = sim_next(p);
    if (next != UINT64_MAX)
        weir__iosim_advance(p->net, next);
    return next != UINT64_MAX;
}

/* Both loops look once. After long idleness, the server's door waits a little for the kernel, so
 * that pairs that run beside each other leave the CPU to the busy one. */
static bool real_step(struct pair *p) {
    bool busy = turn(&p->side[SERVER]);
    busy |= turn(&p->side[CLIENT]);
    p->idle = busy ? 0 : p->idle + 1;
    struct pair_side *s = &p->side[p->side[SERVER].ended ? CLIENT : SERVER];
    if (p->idle > IDLE_ROUNDS && !s->ended) {
        weir__loop_enter(s->loop);
        s->io->ops->wait(s->io, s->io->ops->now(s->io) + IDLE_NS);
        weir__loop_enter(NULL);
    }
    return true;
}

void pair_begin(struct pair *p, const char *waits_for) {
    p->waits_for = waits_for;
    p->steps = p->idle = 0;
    p->look_at_ns = UINT64_MAX;
    p->limit_ns = pair_now_ns(p) + (uint64_t)PATIENCE_S * 1000000000;
}

void pair_step(struct pair *p, const char *file, int line) {
    bool alive = p->net ? sim_step(p) : real_step(p);
    if (!alive)
        pair_fail(p, file, line, "nothing will ever happen again, and it is not so that %s",
                  p->waits_for);
    if (++p->steps > STEPS_MAX || pair_now_ns(p) > p->limit_ns)
        pair_fail(p, file, line, "waited long enough for %s", p->waits_for);
}

void pair_wait_ms(struct pair *p, uint64_t ms) {
    uint64_t end = pair_now_ns(p) + ms * 1000000;
    pair_begin(p, "time passed");
    p->look_at_ns = end;
    while (pair_now_ns(p) < end)
        pair_step(p, __FILE__, __LINE__);
}

void pair_settle(struct pair *p) {
    pair_begin(p, "quiet");
    for (int quiet = 0; quiet < QUIET_ROUNDS && !p->net;) {
        bool busy = turn(&p->side[SERVER]);
        busy |= turn(&p->side[CLIENT]);
        quiet = busy ? 0 : quiet + 1;
        if (pair_now_ns(p) > p->limit_ns)
            fail_case(p, "it never gets quiet");
    }
    while (p->net && (sim_turn(p) || weir__iosim_next_ns(p->net) != UINT64_MAX)) {
        if (!sim_due(&p->side[SERVER]) && !sim_due(&p->side[CLIENT]) &&
            weir__iosim_next_ns(p->net) != UINT64_MAX)
            weir__iosim_advance(p->net, weir__iosim_next_ns(p->net));
        if (++p->steps > STEPS_MAX || pair_now_ns(p) > p->limit_ns)
            fail_case(p, "it never gets quiet");
    }
}
