/* Threads against loops: four threads send, close and post by ref, on connections that live, die
 * and are dead, while two epoll loops run them; then the group stops under their hands. usage:
 * soak_foreign [operations per thread]
 *
 * A record is {target, thread, seq}; a connection carries the records of one target. What must
 * hold: every target      each thread's records arrive in order without a gap, up to where the
 * connection ended steady targets    nobody closes them: every record that was accepted arrives
 *   private targets   one thread sends and then closes: everything before its close arrives
 *   posts             run in each thread's order, exactly once each, unless refused with ESTOPPED
 *   dead refs         answer EGONE
 *   memory            each thread's pool is whole again once the group has ended */
#include "mem/pool.h"
#include "weir.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, LOOPS = 2, STEADY = 4, SHARED = 4, PRIVATE = THREADS };
enum { FIRST_SHARED = STEADY, FIRST_PRIVATE = STEADY + SHARED, TARGETS = FIRST_PRIVATE + PRIVATE };
enum { AHEAD_MAX = 256, PRIVATE_RECORDS = 20, LAST = 1 << 15 };

struct record {
    uint16_t target; /* LAST: its thread closes the connection behind this one */
    uint16_t thread;
    uint32_t seq;
};

struct post_order { /* of one loop; its own cache lines, written on the loop only */
    _Alignas(64) uint64_t next[THREADS];
};

struct producer {
    pthread_t thread;
    unsigned index;
    uint64_t chance;
    struct weir_mem *mem;
    struct weir_ref ref[TARGETS],
        dead; /* the connection of each target as last used; one that ended */
    uint32_t seq[TARGETS];
    uint64_t sent[TARGETS], posted[LOOPS];
    bool refused[LOOPS],
        waits; /* waits: its private connection is closed, the next one is not there yet */
};

static struct weir_group *group;
static struct weir_client_options dialing;
static _Atomic uint64_t refs[TARGETS];
static _Atomic uint64_t received[STEADY][THREADS];
static _Atomic bool stopping;
static struct post_order order[LOOPS];
static struct producer producers[THREADS];
static pthread_barrier_t barrier;
static uint64_t operations = 20000;

#define demand(cond) ((cond) ? (void)0 : broken(__LINE__, #cond))

static void broken(int line, const char *what) {
    fprintf(stderr, "foreign.c:%d: not so: %s\n", line, what);
    abort();
}

/* --- the receiving ends --------------------------------------------------------------------------
 */

struct end {
    bool used, last;
    uint16_t target;
    uint32_t next[THREADS];
};

static void arrived(struct end *x, const struct record *r) {
    uint16_t target = r->target & (LAST - 1);
    demand(target < TARGETS && r->thread < THREADS && !x->last);
    demand(!x->used || x->target == target);
    x->used = true;
    x->target = target;
    demand(r->seq == x->next[r->thread]);
    x->next[r->thread]++;
    if (target < STEADY)
        atomic_fetch_add_explicit(&received[target][r->thread], 1, memory_order_relaxed);
    if (target >= FIRST_PRIVATE)
        demand(r->thread == target - FIRST_PRIVATE);
    x->last = r->target & LAST;
}

static int end_read(struct weir_ctx *c, struct weir_chain *in) {
    struct record r;
    weir_ctx_want(c, sizeof r);
    while (in->bytes >= sizeof r) {
        demand(weir_chain_read(in, 0, &r, sizeof r) == 0);
        weir_chain_drop(in, sizeof r);
        arrived(weir_ctx_state(c), &r);
    }
    return 0;
}

static void end_close(struct weir_ctx *c, int why) {
    const struct end *x = weir_ctx_state(c);
    (void)why;
    if (x->used && x->target >= FIRST_PRIVATE && !atomic_load(&stopping))
        demand(x->last);
}

static const struct weir_handler receiving = {
    .name = "receiving", .state_size = sizeof(struct end), .read = end_read, .close = end_close};

/* --- the sending ends: dialled again as often as somebody closes them --------------------- */

static void dial(struct weir_loop *l, unsigned target);

static void target_close(struct weir_ctx *c, int why) {
    unsigned *target = weir_ctx_state(c);
    (void)why;
    if (!atomic_load(&stopping))
        dial(weir_ctx_loop(c), *target);
}

static int target_read(struct weir_ctx *c, struct weir_chain *in) {
    (void)c;
    weir_chain_fini(in);
    return 0;
}

static const struct weir_handler sending = {
    .name = "sending", .state_size = sizeof(unsigned), .read = target_read, .close = target_close};

static void dialled(struct weir_chan *ch, int status, void *user) {
    unsigned target = (unsigned)(uintptr_t)user;
    demand(status == 0 || atomic_load(&stopping));
    if (!ch)
        return;
    *(unsigned *)weir_ctx_state(weir_chan_ctx(ch, &sending)) = target;
    atomic_store(&refs[target], weir_chan_ref(ch).v);
}

static void dial(struct weir_loop *l, unsigned target) {
    int rc = weir_connect(l, &dialing, dialled, (void *)(uintptr_t)target);
    demand(rc == 0 || (rc == WEIR_ESTOPPED && atomic_load(&stopping)));
}

static void dial_all(struct weir_loop *l, void *user) {
    (void)user;
    for (unsigned t = weir_loop_index(l); t < TARGETS; t += LOOPS)
        dial(l, t);
}

/* --- the threads -------------------------------------------------------------------------- */

static uint64_t chance(struct producer *p, uint64_t below) {
    p->chance ^= p->chance << 13;
    p->chance ^= p->chance >> 7;
    p->chance ^= p->chance << 17;
    return p->chance % below;
}

static int put(struct producer *p, struct weir_ref r, const struct record *record) {
    struct weir_chain out = {0};
    demand(weir_chain_write(p->mem, &out, record, sizeof *record) == 0);
    int rc = weir_send(r, &out);
    demand(rc == 0 || rc == WEIR_EGONE);
    demand(out.bytes == (rc < 0 ? sizeof *record : 0));
    weir_chain_fini(&out);
    return rc;
}

/* The connection of a target as it is now; a new one starts its sequence anew. */
static struct weir_ref look(struct producer *p, unsigned target) {
    struct weir_ref now = {atomic_load(&refs[target])};
    if (now.v != p->ref[target].v) {
        if (target >= FIRST_SHARED && p->ref[target].v)
            p->dead = p->ref[target];
        p->ref[target] = now;
        p->seq[target] = 0;
    }
    return now;
}

static void send_to(struct producer *p, unsigned target, uint16_t mark) {
    struct weir_ref r = look(p, target);
    struct record record = {(uint16_t)(target | mark), (uint16_t)p->index, p->seq[target]};
    int rc = put(p, r, &record);
    demand(rc == 0 || target >= FIRST_SHARED || atomic_load(&stopping));
    if (rc < 0)
        return;
    p->seq[target]++;
    p->sent[target]++;
}

/* Its own connection: some records, then a close that must come behind them. */
static void use_private(struct producer *p) {
    unsigned target = FIRST_PRIVATE + p->index;
    struct weir_ref before = p->ref[target];
    if (p->waits && look(p, target).v == before.v)
        return;
    p->waits = false;
    bool last = p->seq[target] == PRIVATE_RECORDS;
    send_to(p, target, last ? LAST : 0);
    if (!last)
        return;
    int rc = weir_close(p->ref[target], WEIR_DRAIN);
    demand(rc == 0 || (rc == WEIR_EGONE && atomic_load(&stopping)));
    p->waits = true;
}

static void ran(struct weir_loop *l, void *user) {
    uint64_t what = (uint64_t)(uintptr_t)user;
    demand(order[weir_loop_index(l)].next[what >> 48]++ == (what & ((UINT64_C(1) << 48) - 1)));
}

static void post(struct producer *p, unsigned loop) {
    uint64_t what = (uint64_t)p->index << 48 | p->posted[loop];
    int rc = weir_loop_post(weir_group_loop(group, loop), ran, (void *)(uintptr_t)what);
    demand(rc == 0 ? !p->refused[loop] : rc == WEIR_ESTOPPED && atomic_load(&stopping));
    if (rc == 0)
        p->posted[loop]++;
    else
        p->refused[loop] = true;
}

static void use_dead(struct producer *p) {
    struct record record = {0};
    struct weir_ref none = {0};
    demand(weir_close(none, WEIR_ABORT) == WEIR_EGONE && put(p, none, &record) == WEIR_EGONE);
    if (p->dead.v) { /* its successor was there already: it had its close */
        demand(put(p, p->dead, &record) == WEIR_EGONE);
        demand(weir_close(p->dead, WEIR_DRAIN) == WEIR_EGONE);
    }
}

static void close_shared(struct producer *p) {
    struct weir_ref r = look(p, FIRST_SHARED + (unsigned)chance(p, SHARED));
    int rc = weir_close(r, chance(p, 2) ? WEIR_DRAIN : WEIR_ABORT);
    demand(rc == 0 || rc == WEIR_EGONE);
}

static void operate(struct producer *p) {
    uint64_t what = chance(p, 1000);
    if (what < 500)
        send_to(p, (unsigned)chance(p, STEADY), 0);
    else if (what < 750)
        send_to(p, FIRST_SHARED + (unsigned)chance(p, SHARED), 0);
    else if (what < 800)
        use_private(p);
    else if (what < 803)
        close_shared(p);
    else if (what < 820)
        use_dead(p);
    else
        post(p, (unsigned)chance(p, LOOPS));
}

/* Not too far ahead of the loops, or memory decides who wins. */
static void keep_pace(const struct producer *p) {
    for (unsigned t = 0; t < STEADY; t++)
        while (p->sent[t] >
               atomic_load_explicit(&received[t][p->index], memory_order_relaxed) + AHEAD_MAX)
            sched_yield();
}

static void *produce(void *user) {
    struct producer *p = user;
    p->mem = weir_mem_open("producer");
    demand(p->mem);
    pthread_barrier_wait(&barrier);
    for (uint64_t i = 0; i < operations; i++) {
        operate(p);
        keep_pace(p);
    }
    pthread_barrier_wait(&barrier); /* main sees that all has arrived, and stops the group */
    pthread_barrier_wait(&barrier);
    while (!p->refused[0] || !p->refused[1]) {
        operate(p);
        sched_yield();
    }
    pthread_barrier_wait(&barrier); /* main joins the group */
    pthread_barrier_wait(&barrier);
    weir__mem_collect(p->mem);
    demand(weir_mem_live(p->mem) == 0);
    weir_mem_close(p->mem);
    return NULL;
}

/* --- main --------------------------------------------------------------------------------- */

static void begin(void) {
    static struct weir_stage in[] = {{&receiving, NULL}}, out[] = {{&sending, NULL}};
    struct weir_group_options go = {.size = sizeof go, .loops = LOOPS, .transport = "epoll"};
    struct weir_server_options so = {
        .size = sizeof so, .address = "127.0.0.1:0", .stages = in, .n_stages = 1};
    struct weir_server *server;
    demand(weir_group_new(&go, &group) == 0);
    demand(weir_serve(group, &so, &server) == 0);
    dialing = (struct weir_client_options){.size = sizeof dialing,
                                           .stages = out,
                                           .n_stages = 1,
                                           .address = weir_server_address(server)};
    demand(weir_group_start(group) == 0);
    for (unsigned i = 0; i < LOOPS; i++)
        demand(weir_loop_post(weir_group_loop(group, i), dial_all, NULL) == 0);
    for (unsigned t = 0; t < TARGETS; t++)
        while (!atomic_load(&refs[t]))
            sched_yield();
}

static void wait_for_all(void) {
    for (unsigned t = 0; t < STEADY; t++)
        for (unsigned i = 0; i < THREADS; i++)
            while (atomic_load_explicit(&received[t][i], memory_order_relaxed) <
                   producers[i].sent[t])
                sched_yield(); /* ctest's time limit ends a wait for what was lost */
}

static void report(uint64_t opened) {
    uint64_t posts = 0, sends = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned l = 0; l < LOOPS; l++) {
            demand(order[l].next[i] == producers[i].posted[l]);
            posts += producers[i].posted[l];
        }
        for (unsigned t = 0; t < TARGETS; t++)
            sends += producers[i].sent[t];
    }
    printf("%d threads: %llu sends, %llu posts, %llu connections\n", THREADS,
           (unsigned long long)sends, (unsigned long long)posts, (unsigned long long)opened / 2);
}

static uint64_t connections(void) {
    struct weir_loop_stats s;
    uint64_t n = 0;
    for (unsigned l = 0; l < LOOPS; l++) {
        demand(weir_group_loop_stats(group, l, &s) == 0);
        n += s.opened;
    }
    return n;
}

int main(int argc, char **argv) {
    if (argc > 1)
        operations = strtoull(argv[1], NULL, 10);
    begin();
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++) {
        producers[i].index = i;
        producers[i].chance = i + 1;
        demand(pthread_create(&producers[i].thread, NULL, produce, &producers[i]) == 0);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    wait_for_all();
    atomic_store(&stopping, true);
    weir_group_stop(group, 50);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    uint64_t opened = connections();
    demand(weir_group_join(group) == 0);
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(producers[i].thread, NULL);
    report(opened);
    return 0;
}
