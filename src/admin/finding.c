#include "admin/finding.h"
#include "admin/text.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Chosen so that a server at full load that does nothing wrong stays silent (tests/soak/healthy)
 * and each provoked fault is named within one window. */
static const double busy_full = 0.9; /* a loop that has no time left */
static const double busy_cpu = 0.7;  /* of the wall time, so that waiting is not taken for work */
static const double busy_low = 0.5;  /* a loop that has time */
static const double cpu_spare = 0.5; /* CPUs that were idle */
static const double unpooled_share = 0.1; /* blocks from outside the pool per receive */
static const double unpooled_rate = 50;   /* and per second */
static const double file_share = 0.1;     /* of the bytes sent */
static const double file_rate = 1 << 20;  /* bytes per second */
static const double uneven_ratio = 1.75;  /* the fullest loop against the mean */
static const uint64_t uneven_channels = 16;
static const double own_min = 0.5; /* of the length from which a turn is long, without the wait for
                                      a CPU */

struct search {
    const struct weir__admin_snapshot *before, *after;
    const struct weir__admin_turns *turns;
    double seconds;
    struct weir__admin_finding *out;
    unsigned n;
};

const char *weir__admin_kind_name(enum weir__admin_kind kind) {
    static const char *const names[] = {
        [WEIR__ADMIN_UNPOOLED] = "unpooled-buffers",
        [WEIR__ADMIN_FEW_LOOPS] = "too-few-loops",
        [WEIR__ADMIN_MANY_LOOPS] = "too-many-loops",
        [WEIR__ADMIN_FILE_COPIED] = "file-through-memory",
        [WEIR__ADMIN_BLOCKED] = "callback-blocked",
        [WEIR__ADMIN_HELD] = "callback-held",
        [WEIR__ADMIN_UNEVEN_LOOPS] = "uneven-loops",
    };
    return kind < WEIR__ADMIN_KINDS ? names[kind] : "?";
}

/* --- making one ------------------------------------------------------------------------------ */

/* NULL: there is no room for more. */
static struct weir__admin_finding *add(struct search *s, enum weir__admin_kind kind, int loop) {
    if (s->n == WEIR__ADMIN_FINDINGS_MAX)
        return NULL;
    struct weir__admin_finding *f = &s->out[s->n++];
    *f = (struct weir__admin_finding){.kind = kind, .loop = loop};
    return f;
}

static void number(struct weir__admin_finding *f, const char *name, double value) {
    if (f->n_numbers < WEIR__ADMIN_NUMBERS_MAX)
        f->numbers[f->n_numbers++] = (struct weir__admin_number){name, value};
}

WEIR_PRINTF(2, 3) static void say(struct weir__admin_finding *f, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

/* --- looking --------------------------------------------------------------------------------- */

static uint64_t grown(uint64_t before, uint64_t after) {
    return after > before ? after - before : 0;
}

#define GROWN(s, i, field) grown((s)->before->loops[i].field, (s)->after->loops[i].field)

static double busy_share(const struct search *s, unsigned i) {
    double share = (double)GROWN(s, i, stats.busy_ns) / 1e9 / s->seconds;
    return share < 1 ? share : 1;
}

static double cpu_share(const struct search *s, unsigned i) {
    return (double)GROWN(s, i, stats.cpu_ns) / 1e9 / s->seconds;
}

static unsigned busiest(const struct search *s) {
    unsigned best = 0;
    for (unsigned i = 1; i < s->after->n_loops; i++)
        if (busy_share(s, i) > busy_share(s, best))
            best = i;
    return best;
}

/* How many CPUs were idle, or -1: the kernel would not say. */
static double idle_cpus(const struct search *s) {
    const struct weir__loop_process *a = &s->before->process, *b = &s->after->process;
    if (!a->idle_ns || !b->idle_ns)
        return -1;
    return (double)grown(a->idle_ns, b->idle_ns) / 1e9 / s->seconds;
}

/* --- the number of loops --------------------------------------------------------------------- */

static void find_few_loops(struct search *s) {
    unsigned i = busiest(s), cpus = s->after->process.cpus;
    double busy = busy_share(s, i), idle = idle_cpus(s);
    if (s->after->n_loops >= cpus || busy < busy_full || cpu_share(s, i) < busy_cpu ||
        idle < cpu_spare)
        return;
    struct weir__admin_finding *f = add(s, WEIR__ADMIN_FEW_LOOPS, (int)i);
    if (!f)
        return;
    number(f, "loops", s->after->n_loops);
    number(f, "usable_cpus", cpus);
    number(f, "busy_share", busy);
    number(f, "idle_cpus", idle);
    say(f, "Loop %u was busy %.0f %% of the time while %.1f of %u usable CPUs were idle.", i,
        busy * 100, idle, cpus);
    f->advice = "Run one loop per usable CPU: leave --loops away, or raise it.";
}

static double run_queue_share(const struct search *s) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < s->after->n_loops; i++)
        sum += GROWN(s, i, pauses[WEIR_PAUSE_RUN_QUEUE].total_ns);
    return (double)sum / 1e9 / s->seconds / s->after->n_loops;
}

static void find_many_loops(struct search *s) {
    unsigned loops = s->after->n_loops, cpus = s->after->process.cpus;
    if (!cpus || loops <= cpus)
        return;
    struct weir__admin_finding *f = add(s, WEIR__ADMIN_MANY_LOOPS, -1);
    if (!f)
        return;
    number(f, "loops", loops);
    number(f, "usable_cpus", cpus);
    number(f, "run_queue_share", run_queue_share(s));
    say(f, "%u loops share %u usable CPU%s; each was ready and waited for one %.1f %% of the time.",
        loops, cpus, weir__admin_s(cpus), run_queue_share(s) * 100);
    f->advice =
        "More loops than CPUs only take turns: leave --loops away, or lower it to the number "
        "of usable CPUs.";
}

static void find_uneven_loops(struct search *s) {
    uint64_t sum = 0, most = 0;
    unsigned n = s->after->n_loops, full = 0;
    double least_busy = 1;
    for (unsigned i = 0; i < n; i++) {
        uint64_t channels = s->after->loops[i].stats.channels;
        double busy = busy_share(s, i);
        sum += channels;
        least_busy = busy < least_busy ? busy : least_busy;
        if (channels > most) {
            most = channels;
            full = i;
        }
    }
    double ratio = sum ? (double)most * n / (double)sum : 0;
    if (n < 2 || sum < uneven_channels || ratio < uneven_ratio || busy_share(s, full) < busy_full ||
        least_busy > busy_low)
        return;
    struct weir__admin_finding *f = add(s, WEIR__ADMIN_UNEVEN_LOOPS, (int)full);
    if (!f)
        return;
    number(f, "connections", (double)sum);
    number(f, "connections_max", (double)most);
    number(f, "busy_share", busy_share(s, full));
    number(f, "least_busy_share", least_busy);
    say(f,
        "Loop %u holds %" PRIu64 " of %" PRIu64
        " connections and was busy %.0f %% of the time; the least busy loop %.0f %%.",
        full, most, sum, busy_share(s, full) * 100, least_busy * 100);
    f->advice = "The kernel spreads connections by their addresses: use more of them, or "
                "--placement handoff (WEIR_HANDOFF), which gives each to the loop with the fewest.";
}

/* --- memory and files ------------------------------------------------------------------------ */

static uint64_t sum_received(const struct search *s) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < s->after->n_loops; i++)
        sum += GROWN(s, i, stats.received);
    return sum;
}

static void find_unpooled(struct search *s) {
    uint64_t blocks = 0, received = sum_received(s);
    for (unsigned i = 0; i < s->after->n_loops; i++)
        blocks += GROWN(s, i, told.memory.outside_blocks);
    double each = (double)blocks / (double)(received ? received : 1);
    if ((double)blocks < unpooled_rate * s->seconds || each < unpooled_share)
        return;
    struct weir__admin_finding *f = add(s, WEIR__ADMIN_UNPOOLED, -1);
    if (!f)
        return;
    number(f, "blocks", (double)blocks);
    number(f, "blocks_per_s", (double)blocks / s->seconds);
    number(f, "blocks_per_receive", each);
    say(f,
        "%.0f blocks per second came from the system allocator instead of the pool, %.2f per "
        "receive.",
        (double)blocks / s->seconds, each);
    f->advice =
        "Blocks of up to 64 KiB are pooled: chain smaller slices instead of one large buffer, "
        "and serve without --alloc unpooled.";
}

static void find_file_copied(struct search *s) {
    uint64_t copied = 0, sent = 0;
    for (unsigned i = 0; i < s->after->n_loops; i++) {
        copied += GROWN(s, i, stats.file_copied_bytes);
        sent += GROWN(s, i, stats.sent_bytes);
    }
    double rate = (double)copied / s->seconds, share = (double)copied / (double)(sent ? sent : 1);
    if (rate < file_rate || share < file_share)
        return;
    struct weir__admin_finding *f = add(s, WEIR__ADMIN_FILE_COPIED, -1);
    if (!f)
        return;
    number(f, "copied_bytes", (double)copied);
    number(f, "copied_bytes_per_s", rate);
    number(f, "share_of_sent", share < 1 ? share : 1);
    say(f, "%.1f MiB per second of file contents went through this process's memory.",
        rate / (1 << 20));
    f->advice =
        "Send a file as a region (weir_chain_add_file): the kernel then passes it on without "
        "a copy.";
}

/* --- callbacks that keep their loop ---------------------------------------------------------- */

struct hog { /* long turns of one handler on one loop */
    const struct weir_long_turn *longest;
    const char *handler;
    uint64_t total_ns, cpu_ns;
    unsigned n;
};

static const char *handler_of(const struct weir_long_turn *t) {
    return t->n_handlers ? t->handlers[0] : NULL;
}

static bool same_handler(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

/* Ended, or still runs, within the window. */
static bool within(const struct search *s, const struct weir_long_turn *t) {
    return !t->over || t->at_ns + t->length_ns > s->before->at_ns;
}

static bool seen_before(const struct search *s, unsigned turn) {
    const struct weir_long_turn *turns = s->turns->turns;
    for (unsigned i = 0; i < turn; i++)
        if (turns[i].loop == turns[turn].loop && within(s, &turns[i]) &&
            same_handler(handler_of(&turns[i]), handler_of(&turns[turn])))
            return true;
    return false;
}

static struct hog hog_of(const struct search *s, unsigned first) {
    const struct weir_long_turn *turns = s->turns->turns, *like = &turns[first];
    struct hog h = {.handler = handler_of(like), .longest = like};
    for (unsigned i = first; i < s->turns->n; i++) {
        const struct weir_long_turn *t = &turns[i];
        if (t->loop != like->loop || !within(s, t) || !same_handler(handler_of(t), h.handler))
            continue;
        h.n++;
        h.total_ns += t->length_ns;
        h.cpu_ns += t->cpu_ns;
        if (t->length_ns > h.longest->length_ns)
            h.longest = t;
    }
    return h;
}

/* How long the loop waited for a CPU meanwhile. Of turns longer than the window only a part
 * was seen, which stands for the whole. */
static double queued_ns(const struct search *s, const struct hog *h) {
    double queued = (double)GROWN(s, h->longest->loop, pauses[WEIR_PAUSE_RUN_QUEUE].total_ns);
    double total = (double)h->total_ns, window = s->seconds * 1e9;
    queued *= total > window ? total / window : 1;
    return queued < total ? queued : total;
}

static void find_hog(struct search *s, const struct hog *h) {
    unsigned loop = h->longest->loop;
    double total = (double)h->total_ns, cpu = (double)h->cpu_ns / total;
    double queued = queued_ns(s, h), own = total - queued;
    if (own < total / 2 && own / h->n < own_min * (double)s->after->long_turn_ns)
        return; /* others had its CPU: no fault of the callback */
    bool held = (double)h->cpu_ns >= own / 2;
    struct weir__admin_finding *f = add(s, held ? WEIR__ADMIN_HELD : WEIR__ADMIN_BLOCKED,
                                        (int)loop);
    if (!f)
        return;
    uint64_t channels = s->after->loops[loop].stats.channels;
    f->handler = h->handler;
    f->stack = h->longest->stack[0] ? h->longest->stack : NULL;
    number(f, "turns", h->n);
    number(f, "longest_ms", (double)h->longest->length_ns / 1e6);
    number(f, "total_ms", total / 1e6);
    number(f, "cpu_share", cpu);
    number(f, "run_queue_ms", queued / 1e6);
    number(f, "connections", (double)channels);
    say(f,
        "%s%s%s kept loop %u from everything else: %u long turn%s, the longest %.0f ms; %.0f %% of "
        "that time it used a CPU. %" PRIu64 " connection%s meanwhile.",
        h->handler ? "The handler \"" : "Something that is no handler's",
        h->handler ? weir__admin_name(h->handler).text : "", h->handler ? "\"" : "", loop, h->n,
        weir__admin_s(h->n), (double)h->longest->length_ns / 1e6, cpu * 100, channels,
        channels == 1 ? " waits" : "s wait");
    f->advice = held
                    ? "Cut the work into tasks, or hand it to worker threads."
                    : "A callback must not wait: hand what blocks to worker threads, or ask for it "
                      "asynchronously.";
}

static void find_hogs(struct search *s) {
    for (unsigned i = 0; i < s->turns->n; i++) {
        const struct weir_long_turn *t = &s->turns->turns[i];
        if (!within(s, t) || seen_before(s, i) || t->loop >= s->after->n_loops)
            continue;
        struct hog h = hog_of(s, i);
        find_hog(s, &h);
    }
}

unsigned weir__admin_find(const struct weir__admin_snapshot *before,
                          const struct weir__admin_snapshot *after,
                          const struct weir__admin_turns *turns,
                          struct weir__admin_finding out[WEIR__ADMIN_FINDINGS_MAX]) {
    uint64_t window = grown(before->at_ns, after->at_ns);
    struct search s = {.before = before,
                       .after = after,
                       .turns = turns,
                       .seconds = (double)window / 1e9,
                       .out = out};
    if (window < (uint64_t)WEIR__ADMIN_WINDOW_MIN_MS * 1000000 || !after->n_loops ||
        before->n_loops != after->n_loops)
        return 0;
    find_hogs(&s);
    find_few_loops(&s);
    find_many_loops(&s);
    find_uneven_loops(&s);
    find_unpooled(&s);
    find_file_copied(&s);
    return s.n;
}
