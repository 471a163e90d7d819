/* What this kernel's io_uring does, found out by trying: bits that a kernel shows have been wrong
 * before, and versions say nothing about what a distribution took over. */
#include "base/assert.h"
#include "io/uring/buffers.h"
#include "io/uring/uring.h"
#include "os/error.h"
#include "os/memory.h"
#include "os/sock.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

const struct weir__uring_feature_name weir__uring_features[] = {
    {WEIR__URING_RING_FD, "ring-fd", "the ring is a registered descriptor of its thread"},
    {WEIR__URING_MULTI_ACCEPT, "multi-accept", "one request brings many connections"},
    {WEIR__URING_MULTI_RECV, "multi-recv", "one request brings all that a connection receives"},
    {WEIR__URING_ZERO_COPY, "zero-copy", "large sends without a copy, for who asks for them"},
    {WEIR__URING_DEFER, "defer", "completions come when the loop asks for them"},
    {WEIR__URING_NO_SQARRAY, "no-sqarray", "entries without an array of indices"},
    {WEIR__URING_INC_BUFFERS, "inc-buffers", "pieces share large receive buffers"},
    {WEIR__URING_FAIR_RECV, "fair-recv", "a connection gives way after one buffer full"},
    {WEIR__URING_SYNC_SEND, "sync-send", "sends are tried by system call first"},
    {0, NULL, NULL},
};

enum {
    TAG_RECV = 1,
    TAG_CANCEL = 2,
    TAG_OTHER = 3,
    BUFS = 4,
    BYTES = 4096,
    PIECE = 100,
    LONG = 10000
};

/* A stream, a ring of small buffers, and what came so far. */
struct trial {
    struct weir__uring_ring ring;
    struct uring_buf *bufs;
    uint8_t *memory;
    int fd[2];
    bool inc;
    uint32_t len; /* of a receive */
};

static void give(struct trial *t, unsigned bid) {
    uint16_t tail = t->bufs[0].tail;
    struct uring_buf *b = &t->bufs[tail & (BUFS - 1)];
    b->addr = (uintptr_t)(t->memory + (size_t)bid * BYTES);
    b->len = BYTES;
    b->bid = (uint16_t)bid;
    __atomic_store_n(&t->bufs[0].tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

static int trial_open(struct trial *t, unsigned without, const char **why) {
    t->fd[0] = t->fd[1] = -1;
    int rc = weir__uring_ring_init(&t->ring, without, why);
    if (rc >= 0)
        rc = weir__uring_ring_enable(&t->ring, WEIR__URING_RING_FD);
    if (rc < 0)
        return rc;
    *why = "no memory for the rings";
    t->bufs = weir__os_map(BUFS * sizeof *t->bufs, 0);
    t->memory = weir__os_map((size_t)BUFS * BYTES, 0);
    if (!t->bufs || !t->memory)
        return -ENOMEM;
    *why = "no socket pair to try it with";
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, t->fd) < 0 ? -errno
                                                                                         : 0;
}

static void trial_close(struct trial *t) {
    weir__uring_ring_fini(&t->ring);
    if (t->bufs)
        weir__os_unmap(t->bufs, BUFS * sizeof *t->bufs);
    if (t->memory)
        weir__os_unmap(t->memory, (size_t)BUFS * BYTES);
    for (unsigned i = 0; i < 2; i++)
        if (t->fd[i] >= 0)
            weir__os_close(t->fd[i]);
}

static bool buffers(struct trial *t) {
    struct uring_buf_reg reg = {
        .ring_addr = (uintptr_t)t->bufs, .ring_entries = BUFS, .flags = t->inc ? PBUF_INC : 0};
    if (weir__uring_ring_register(&t->ring, REGISTER_PBUF_RING, &reg, 1) < 0)
        return false;
    for (unsigned i = 0; i < BUFS; i++)
        give(t, i);
    return true;
}

static void arm(struct trial *t) {
    struct uring_sqe *e = weir__uring_ring_sqe(&t->ring);
    if (!e)
        return; /* then nothing comes, which is judged */
    e->opcode = OP_RECV;
    e->fd = t->fd[0];
    e->flags = SQE_BUFFER_SELECT;
    e->ioprio = RECV_MULTISHOT;
    e->len = t->len;
    e->user_data = TAG_RECV;
}

/* The next completion within a moment, else one with res -ETIME. */
static struct uring_cqe result(struct trial *t) {
    for (unsigned i = 0; i < 4; i++) {
        const struct uring_cqe *e = weir__uring_ring_peek(&t->ring);
        if (e) {
            struct uring_cqe out = *e;
            weir__uring_ring_pop(&t->ring);
            return out;
        }
        (void)weir__uring_ring_enter(&t->ring, 1000000);
    }
    return (struct uring_cqe){.res = -ETIME};
}

static bool put(struct trial *t, size_t n) {
    static const uint8_t zeros[LONG];
    return weir__os_send(t->fd[1], zeros, n, false) == (ssize_t)n;
}

/* One receive goes on, piece after piece; with `inc` they follow each other in one buffer. */
static bool goes_on(struct trial *t) {
    for (unsigned i = 0; i < 2; i++) {
        if (!put(t, PIECE))
            return false;
        struct uring_cqe e = result(t);
        if (e.res != PIECE || !(e.flags & CQE_MORE) || !(e.flags & CQE_BUFFER))
            return false;
        if (t->inc && (!(e.flags & CQE_BUF_MORE) || e.flags >> CQE_BUFFER_SHIFT))
            return false;
    }
    return true;
}

/* Without buffers the receive ends, and what was not read is there for the next. */
static bool runs_dry(struct trial *t) {
    size_t got = 0;
    bool dry = false;
    for (unsigned i = 0; i < 2; i++)
        if (!put(t, LONG))
            return false;
    for (unsigned i = 0; i < 8 * BUFS && got < 2 * (size_t)LONG; i++) {
        struct uring_cqe e = result(t);
        if (e.res == -ENOBUFS && !(e.flags & CQE_MORE)) {
            dry = true;
            for (unsigned bid = 0; bid < BUFS; bid++)
                give(t, bid);
            arm(t);
        } else if (e.res > 0 && e.flags & CQE_BUFFER) {
            got += (size_t)e.res;
        } else {
            return false;
        }
    }
    return dry && got == 2 * (size_t)LONG;
}

/* One last completion for one cancel, in either order, and none for what comes later. */
static bool cancels(struct trial *t) {
    struct uring_sqe *e = weir__uring_ring_sqe(&t->ring);
    if (!e)
        return false;
    e->opcode = OP_ASYNC_CANCEL;
    e->fd = -1;
    e->addr = TAG_RECV;
    e->user_data = TAG_CANCEL;
    bool target = false, answer = false;
    for (unsigned i = 0; i < 2; i++) {
        struct uring_cqe r = result(t);
        target |= r.user_data == TAG_RECV && r.res == -ECANCELED && !(r.flags & CQE_MORE);
        answer |= r.user_data == TAG_CANCEL;
    }
    return target && answer;
}

/* Bytes before the end, and the end once. */
static bool ends(struct trial *t) {
    arm(t);
    for (unsigned bid = 0; bid < BUFS / 2; bid++)
        give(t, bid);
    if (!put(t, PIECE) || weir__os_shutdown_write(t->fd[1]) < 0)
        return false;
    struct uring_cqe bytes = result(t), end = result(t);
    return bytes.res == PIECE && end.res == 0 && !(end.flags & CQE_MORE);
}

static bool arm_once(struct trial *t, int fd) {
    struct uring_sqe *e = weir__uring_ring_sqe(&t->ring);
    if (!e)
        return false;
    e->opcode = OP_RECV;
    e->fd = fd;
    e->flags = SQE_BUFFER_SELECT;
    e->len = BYTES;
    e->user_data = TAG_OTHER;
    return true;
}

/* Each piece lies where the order of the completions says. */
static bool lie_in_order(struct trial *t) {
    for (size_t at = 0, i = 0; i < 2; i++) {
        struct uring_cqe e = result(t);
        const char *text = e.user_data == TAG_OTHER ? "once" : "endless";
        size_t n = strlen(text);
        if (e.res != (int)n || e.flags >> CQE_BUFFER_SHIFT || memcmp(t->memory + at, text, n) != 0)
            return false;
        at += n;
    }
    return true;
}

/* Two streams share a buffer, one by a request that brings one piece: kernels have told of the
 * other one first, which gives each the bytes of the other. */
static bool shares_in_order(unsigned without) {
    struct trial t = {.inc = true};
    int other[2] = {-1, -1};
    const char *why;
    bool good = trial_open(&t, without, &why) >= 0 && buffers(&t) &&
                socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, other) == 0 &&
                weir__os_send(other[1], "once", 4, false) == 4 &&
                weir__os_send(t.fd[1], "endless", 7, false) == 7 && arm_once(&t, other[0]);
    if (good) {
        arm(&t);
        good = lie_in_order(&t);
    }
    for (unsigned i = 0; i < 2; i++)
        if (other[i] >= 0)
            weir__os_close(other[i]);
    trial_close(&t);
    return good;
}

/* Whether a multishot receive behaves: with incremental buffers, and giving way after `len`. */
static bool receives(unsigned without, bool inc, uint32_t len) {
    struct trial t = {.inc = inc, .len = len};
    const char *why;
    bool good = trial_open(&t, without, &why) >= 0 && buffers(&t);
    if (good) {
        arm(&t);
        good = goes_on(&t) && runs_dry(&t) && cancels(&t) && ends(&t);
    }
    trial_close(&t);
    return good;
}

static unsigned receive_features(unsigned without) {
    bool inc = !(without & WEIR__URING_INC_BUFFERS) && shares_in_order(without);
    uint32_t fair = without & WEIR__URING_FAIR_RECV ? 0 : BYTES;
    if (without & WEIR__URING_MULTI_RECV)
        return 0;
    if (fair && inc && receives(without, true, fair))
        return WEIR__URING_MULTI_RECV | WEIR__URING_INC_BUFFERS | WEIR__URING_FAIR_RECV;
    if (inc && receives(without, true, 0))
        return WEIR__URING_MULTI_RECV | WEIR__URING_INC_BUFFERS;
    if (fair && receives(without, false, fair))
        return WEIR__URING_MULTI_RECV | WEIR__URING_FAIR_RECV;
    return receives(without, false, 0) ? WEIR__URING_MULTI_RECV : 0;
}

/* Multishot accepting came before everything that this door cannot do without (5.19). */
static unsigned op_features(const struct weir__uring_ring *r) {
    struct uring_probe p;
    memset(&p, 0, sizeof p);
    unsigned has = WEIR__URING_MULTI_ACCEPT | WEIR__URING_SYNC_SEND;
    if (weir__uring_ring_register(r, REGISTER_PROBE, &p, OPS) >= 0 &&
        p.ops[OP_SEND_ZC].flags & p.ops[OP_SENDMSG_ZC].flags & 1)
        has |= WEIR__URING_ZERO_COPY;
    return has;
}

static unsigned ring_features(struct weir__uring_ring *r) {
    return (r->setup & SETUP_DEFER_TASKRUN ? WEIR__URING_DEFER : 0) |
           (r->setup & SETUP_NO_SQARRAY ? WEIR__URING_NO_SQARRAY : 0) |
           (r->enter_flags ? WEIR__URING_RING_FD : 0);
}

int weir__uring_probe(unsigned without, unsigned *has, const char **why) {
    struct weir__uring_ring r;
    *has = 0;
    int rc = weir__uring_ring_init(&r, without, why);
    if (rc >= 0)
        rc = weir__uring_ring_enable(&r, without);
    if (rc >= 0) {
        *has = ring_features(&r) | op_features(&r);
        *has |= receive_features(without);
        *has &= ~without;
    }
    weir__uring_ring_fini(&r);
    if (rc < 0)
        return rc == -EMFILE || rc == -ENFILE ? WEIR_EFDS : WEIR_ENOTSUP;
    *why = "";
    return 0;
}
