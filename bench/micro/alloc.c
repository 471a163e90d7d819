/* What a block costs, alloc and free together: Weir's blocks and slices against glibc, jemalloc and
 * mimalloc (where their libraries are there) and against a bare free list, which is the floor. All
 * in one process, each behind a pointer into a shared library, in interleaved slices of fresh
 * order; the ratio of two is the median of the ratios per slice. alloc_bench_static is the same
 * with Weir linked in, as its own programs have it.
 *
 *     alloc_bench                       every case, 40 slices
 *     alloc_bench --slices 7 tight_64   one case, shorter
 *     alloc_bench --check               every case once, for the test suite */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "alloc_bare.h"
#include "weir/mem.h"

enum { SLICES = 40, SLICES_MAX = 200, WARM = 1000000, FIFO = 256, BATCH = 256, TABLE = 4096 };

enum who { WEIR, SLICE, GLIBC, JEMALLOC, MIMALLOC, BARE, ALL };
static const char *const names[ALL] = {"weir", "slices", "glibc", "jemalloc", "mimalloc", "bare"};

/* --- the allocators -------------------------------------------------------------------------- */

static struct weir_mem *pool;
/* Everybody is called through a pointer, as a program's calls into a library end up. */
static void *(*volatile weir_alloc)(struct weir_mem *m, size_t n) = weir_mem_alloc;
static void (*volatile weir_free)(void *p) = weir_mem_free;
static int (*volatile slice_new)(struct weir_mem *m, size_t n,
                                 struct weir_slice *out) = weir_slice_new;
static void (*volatile slice_release)(struct weir_slice *s) = weir_slice_release;
static void *(*mallocs[ALL])(size_t n) = {[GLIBC] = malloc};
static void (*frees[ALL])(void *p) = {[GLIBC] = free};

static void *(*volatile bare_alloc)(size_t n) = bench_bare_get;
static void (*volatile bare_free)(void *p) = bench_bare_put;

/* A block of whoever, one byte of it touched. */
static inline __attribute__((always_inline)) void get(enum who who, size_t n,
                                                      struct weir_slice *s) {
    if (who == SLICE) {
        if (slice_new(pool, n, s) < 0)
            abort();
    } else if (who == WEIR) {
        s->p = weir_alloc(pool, n);
    } else {
        s->p = who == BARE ? bare_alloc(n) : mallocs[who](n);
    }
    s->p[0] = 1;
}

static inline __attribute__((always_inline)) void put(enum who who, struct weir_slice *s) {
    if (who == SLICE)
        slice_release(s);
    else if (who == WEIR)
        weir_free(s->p);
    else if (who == BARE)
        bare_free(s->p);
    else
        frees[who](s->p);
}

/* CPU time of this thread: others may use the machine too. */
static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static uint32_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*state >> 33);
}

/* --- the cases ------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void tight(enum who who, size_t n, unsigned ops) {
    for (unsigned i = 0; i < ops; i++) {
        struct weir_slice s;
        get(who, n, &s);
        __asm__ volatile("" : : "r"(s.p) : "memory");
        put(who, &s);
    }
}

static inline __attribute__((always_inline)) void fifo(enum who who, size_t n, unsigned ops) {
    static struct weir_slice q[FIFO];
    for (unsigned i = 0; i < FIFO; i++)
        get(who, n, &q[i]);
    for (unsigned i = 0; i < ops; i++) {
        put(who, &q[i % FIFO]);
        get(who, n, &q[i % FIFO]);
    }
    for (unsigned i = 0; i < FIFO; i++)
        put(who, &q[i]);
}

/* As many as fit are taken and given back in another order, all of them 3 KiB. */
static inline __attribute__((always_inline)) void herd(enum who who, size_t n, unsigned ops) {
    static struct weir_slice q[TABLE];
    for (unsigned done = 0; done < ops; done += TABLE) {
        for (unsigned i = 0; i < TABLE; i++)
            get(who, n, &q[i]);
        for (unsigned i = 0; i < TABLE; i++)
            put(who, &q[i * 2731 % TABLE]);
    }
}

/* Sizes drift from small to large and back; what is in the table stays for a while. */
static size_t mixed_size(uint64_t *state, unsigned i, unsigned ops) {
    unsigned phase = (unsigned)((uint64_t)i * 8 / (ops + 1));
    size_t base = (size_t)32 << (phase < 4 ? phase * 2 : (8 - phase) * 2);
    return base + random_next(state) % base;
}

static inline __attribute__((always_inline)) void mix(enum who who, size_t n, unsigned ops) {
    static struct weir_slice q[TABLE];
    uint64_t state = 7;
    (void)n;
    for (unsigned i = 0; i < ops; i++) {
        struct weir_slice *s = &q[random_next(&state) % TABLE];
        size_t size = mixed_size(&state, i, ops);
        if (s->p)
            put(who, s);
        get(who, size, s);
    }
    for (unsigned i = 0; i < TABLE; i++) {
        if (q[i].p)
            put(who, &q[i]);
        q[i] = (struct weir_slice){0};
    }
}

/* Another thread frees what this one allocates, a batch at a time. */
static struct weir_slice batches[4][BATCH];
static _Atomic unsigned filled, emptied;
static unsigned batches_all;

static inline __attribute__((always_inline)) void free_batches(enum who who) {
    for (unsigned at = 0; at < batches_all; at++) {
        while (at == atomic_load_explicit(&filled, memory_order_acquire))
            ;
        for (unsigned i = 0; i < BATCH; i++)
            put(who, &batches[at % 4][i]);
        atomic_store_explicit(&emptied, at + 1, memory_order_release);
    }
}

static inline __attribute__((always_inline)) void fill_batches(enum who who, size_t n) {
    for (unsigned at = 0; at < batches_all; at++) {
        while (at - atomic_load_explicit(&emptied, memory_order_acquire) >= 4)
            ;
        for (unsigned i = 0; i < BATCH; i++) {
            get(who, n, &batches[at % 4][i]);
            if (who == SLICE)
                weir_slice_share(&batches[at % 4][i]);
        }
        atomic_store_explicit(&filled, at + 1, memory_order_release);
    }
}

#define FOR_WHO(WHO, call)                \
    switch (WHO) {                        \
    case WEIR: call(WEIR); break;         \
    case SLICE: call(SLICE); break;       \
    case GLIBC: call(GLIBC); break;       \
    case JEMALLOC: call(JEMALLOC); break; \
    case MIMALLOC: call(MIMALLOC); break; \
    default: call(BARE); break;           \
    }

#define CASE(name)                                                 \
    static void run_##name(enum who who, size_t n, unsigned ops) { \
        FOR_WHO(who, CALL_##name)                                  \
    }
#define CALL_tight(w) tight(w, n, ops)
#define CALL_fifo(w) fifo(w, n, ops)
#define CALL_herd(w) herd(w, n, ops)
#define CALL_mix(w) mix(w, n, ops)
CASE(tight)
CASE(fifo)
CASE(herd)
CASE(mix)

static void *free_thread(void *who) {
    FOR_WHO(*(enum who *)who, free_batches)
    return NULL;
}

static void run_abroad(enum who who, size_t n, unsigned ops) {
    pthread_t thread;
    batches_all = ops / BATCH;
    atomic_store(&filled, 0);
    atomic_store(&emptied, 0);
    if (pthread_create(&thread, NULL, free_thread, &who))
        abort();
#define CALL_fill(w) fill_batches(w, n)
    FOR_WHO(who, CALL_fill)
    pthread_join(thread, NULL);
}

static const struct bench_case {
    const char *name, *what;
    void (*run)(enum who who, size_t n, unsigned ops);
    size_t bytes;
    unsigned ops;
    bool judged, bare;
} cases[] = {
    {"tight_64", "64 B, given back at once", run_tight, 64, 400000, true, true},
    {"tight_1k", "1 KiB, given back at once", run_tight, 1024, 400000, true, true},
    {"tight_16k", "16 KiB, given back at once", run_tight, 16384, 400000, true, true},
    {"fifo_64", "64 B, the oldest of 256 goes", run_fifo, 64, 400000, true, true},
    {"fifo_1k", "1 KiB, the oldest of 256 goes", run_fifo, 1024, 400000, true, true},
    {"fifo_16k", "16 KiB, the oldest of 256 goes", run_fifo, 16384, 400000, true, true},
    {"herd_3k", "4096 of 3 KiB, then all go", run_herd, 3072, 200000, false, true},
    {"mix", "64 B .. 8 KiB, drifting, 4096 alive", run_mix, 0, 400000, false, false},
    {"abroad_1k", "1 KiB, freed on another thread", run_abroad, 1024, 200000, false, false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* --- arithmetic and tables ------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, unsigned n) {
    qsort(x, n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static bool there(const struct bench_case *c, enum who who) {
    return who <= SLICE || (who == BARE ? c->bare : mallocs[who] != NULL);
}

static double times[ALL][SLICES_MAX];

static void measure(const struct bench_case *c, unsigned slices) {
    static uint64_t state = 1;
    for (unsigned k = 0; k < slices; k++) {
        enum who order[ALL];
        for (unsigned i = 0; i < ALL; i++)
            order[i] = (enum who)i;
        for (unsigned i = ALL; i-- > 1;) {
            unsigned j = random_next(&state) % (i + 1);
            enum who x = order[i];
            order[i] = order[j];
            order[j] = x;
        }
        for (unsigned i = 0; i < ALL; i++) {
            if (!there(c, order[i]))
                continue;
            c->run(order[i], c->bytes, c->ops / 20);
            uint64_t before = now();
            c->run(order[i], c->bytes, c->ops);
            times[order[i]][k] = (double)(now() - before) / c->ops;
        }
    }
}

static double ratio(enum who a, enum who b, unsigned slices) {
    double r[SLICES_MAX];
    for (unsigned k = 0; k < slices; k++)
        r[k] = times[a][k] / times[b][k];
    return median(r, slices);
}

static void print_row(const struct bench_case *c, unsigned slices) {
    double best = 0, bare = c->bare ? ratio(WEIR, BARE, slices) : 0;
    printf("%-10s %-36s", c->name, c->what);
    for (enum who w = GLIBC; w <= MIMALLOC; w++) {
        double r = there(c, w) ? ratio(WEIR, w, slices) : 0;
        best = r > best ? r : best;
        printf(r > 0 ? " %8.2f" : "        -", r);
    }
    printf(c->bare ? " %8.2f" : "        -", bare);
    for (enum who w = WEIR; w <= SLICE; w++) {
        double own[SLICES_MAX];
        memcpy(own, times[w], sizeof own);
        printf(" %6.1f", median(own, slices));
    }
    printf("  ");
    if (!c->judged)
        printf("reported\n");
    else
        printf("target 0.60 %s, goal 1.50 x bare %s\n", best <= 0.60 ? "met" : "MISSED",
               bare <= 1.5 ? "reached" : "not reached");
}

/* --- memory ---------------------------------------------------------------------------------- */

static long resident(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

#define PUT_AT(w) put(w, &q[at])
#define GET_AT(w) get(w, sizes[at], &q[at])

struct drifted {
    double middle, end; /* resident by live: sizes at their largest, and small again */
};

/* In a process of its own: what stays resident per live byte while sizes drift. */
static struct drifted drift(enum who who) {
    enum { N = TABLE * 8, OPS = 4000000 };
    static struct weir_slice q[N];
    static size_t sizes[N];
    struct drifted d = {0};
    uint64_t state = 11, live = 0;
    memset(q, 0, sizeof q);
    memset(sizes, 0, sizeof sizes);
    long before = resident();
    for (unsigned i = 0; i < OPS; i++) {
        unsigned at = random_next(&state) % N;
        if (sizes[at])
            FOR_WHO(who, PUT_AT)
        live -= sizes[at];
        sizes[at] = mixed_size(&state, i, OPS);
        live += sizes[at];
        FOR_WHO(who, GET_AT)
        memset(q[at].p, 1, sizes[at]);
        if (i == OPS / 8 * 5)
            d.middle = (double)(resident() - before) / (double)live;
    }
    d.end = (double)(resident() - before) / (double)live;
    return d;
}

static void print_memory(void) {
    printf("resident / live, 32,768 blocks alive that drift from 48 B to 12 KiB (first figure) and "
           "back (second):\n");
    for (enum who w = WEIR; w <= MIMALLOC; w++) {
        if (w > SLICE && !mallocs[w])
            continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            struct drifted d = drift(w);
            printf("  %-10s %6.2f %6.2f\n", names[w], d.middle, d.end);
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

/* --- main ------------------------------------------------------------------------------------ */

static void find_peer(enum who who, const char *library, const char *get_name,
                      const char *put_name) {
    void *h = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *get_fn = h ? dlsym(h, get_name) : NULL, *put_fn = h ? dlsym(h, put_name) : NULL;
    if (!get_fn || !put_fn) {
        printf("left out: %s (%s)\n", names[who], h ? "no malloc in it" : dlerror());
        return;
    }
    memcpy(&mallocs[who], &get_fn, sizeof get_fn);
    memcpy(&frees[who], &put_fn, sizeof put_fn);
}

/* An allocator that is loaded late needs room for its thread-local storage, which the dynamic
 * linker sets aside only when told so before the start. */
static void begin_with_room(char **argv) {
    if (getenv("GLIBC_TUNABLES"))
        return;
    setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536", 1);
    execv("/proc/self/exe", argv);
}

static int usage(void) {
    fprintf(stderr, "usage: alloc_bench [--check] [--slices N] [case ...]\n");
    return 2;
}

int main(int argc, char **argv) {
    begin_with_room(argv);
    unsigned slices = SLICES;
    bool check = false;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--check"))
            check = true;
        else if (!strcmp(argv[i], "--slices") && i + 1 < argc)
            slices = (unsigned)atoi(argv[++i]);
        else
            return usage();
    }
    if (slices < 1 || slices > SLICES_MAX)
        return usage();
    find_peer(JEMALLOC, "libjemalloc.so.2", "malloc", "free");
    find_peer(MIMALLOC, "libmimalloc.so.2", "mi_malloc", "mi_free");
    pool = weir_mem_open("bench");
    if (!pool)
        return 1;
    if (!check)
        print_memory();
    for (enum who w = WEIR; w <= MIMALLOC; w++)
        if (w <= SLICE || mallocs[w])
            run_mix(w, 0, check ? 10000 : WARM);
    printf(
        "\nweir's time as a ratio to the others', %u slices; ns of weir's blocks and slices here\n",
        check ? 1 : slices);
    printf("%-10s %-36s %8s %8s %8s %8s %6s %6s\n", "case", "", "glibc", "jemalloc", "mimalloc",
           "bare", "ns", "slices");
    for (unsigned k = 0; k < CASES; k++) {
        bool wanted = i >= argc;
        for (int a = i; a < argc; a++)
            wanted |= !strcmp(argv[a], cases[k].name);
        if (!wanted)
            continue;
        bench_bare_forget();
        struct bench_case c = cases[k];
        c.ops = check ? 10000 : c.ops;
        measure(&c, check ? 1 : slices);
        print_row(&c, check ? 1 : slices);
    }
    weir_mem_close(pool);
    return 0;
}
