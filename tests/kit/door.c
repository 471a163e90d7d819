#include "kit/door.h"
#include "base/compiler.h"
#include "mem/pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct kit_door *of(struct weir__io *io) {
    return container_of(io, struct kit_door, io);
}

static struct kit_sock *sock_of(struct weir__io_sock *s) {
    return container_of(s, struct kit_sock, s);
}

static int open_sock(struct kit_door *d, void *user, struct weir__io_sock **out) {
    if (d->refuse < 0)
        return d->refuse;
    for (unsigned i = 0; i < KIT_DOOR_SOCKS; i++) {
        struct kit_sock *k = &d->socks[i];
        if (k->used)
            continue;
        *k = (struct kit_sock){.used = true};
        k->s.ref = weir__io_slot_new(d->io.slots, &k->s);
        k->s.user = user;
        *out = &k->s;
        return k->s.ref ? 0 : WEIR_ENOMEM;
    }
    return WEIR_EFDS;
}

static int door_attach(struct weir__io *io, intptr_t handle, void *user,
                       struct weir__io_sock **out) {
    (void)handle;
    return open_sock(of(io), user, out);
}

static int door_connect(struct weir__io *io, const struct weir__io_connect *o, void *user,
                        struct weir__io_sock **out) {
    (void)o;
    return open_sock(of(io), user, out);
}

static int door_recv_arm(struct weir__io *io, struct weir__io_sock *s, int64_t credit) {
    struct kit_sock *k = sock_of(s);
    (void)io;
    assert_false(k->armed || k->closing);
    k->armed = true;
    k->credit = credit;
    return 0;
}

static int door_send(struct weir__io *io, struct weir__io_sock *s, const struct weir_chain *c) {
    (void)io, (void)s, (void)c;
    return 1;
}

static void end_recv(struct kit_door *d, struct kit_sock *k) {
    if (!k->armed)
        return;
    k->armed = false;
    kit_door_queue(
        d, k->s.user,
        (struct weir__io_done){.kind = WEIR__IO_RECEIVED, .last = true, .code = WEIR_ECANCELLED});
}

static void door_cancel(struct weir__io *io, struct weir__io_sock *s, unsigned ops) {
    if (ops & WEIR__IO_RECV)
        end_recv(of(io), sock_of(s));
}

static void door_close(struct weir__io *io, struct weir__io_sock *s, bool abort) {
    struct kit_sock *k = sock_of(s);
    struct kit_door *d = of(io);
    k->aborted |= abort;
    if (k->closing || d->stuck)
        return;
    k->closing = true;
    end_recv(d, k);
    kit_door_queue(d, s->user, (struct weir__io_done){.kind = WEIR__IO_CLOSED, .last = true});
    weir__io_slot_free(d->io.slots, s->ref);
    k->used = false;
}

static int door_shutdown(struct weir__io *io, struct weir__io_sock *s) {
    (void)io, (void)s;
    return 0;
}

static int door_start(struct weir__io *io) {
    of(io)->starts++;
    return 0;
}

static int door_wait(struct weir__io *io, uint64_t until_ns) {
    struct kit_door *d = of(io);
    d->waits++;
    d->asked_ns = until_ns;
    if (d->broken < 0)
        return d->broken;
    if (d->head != d->tail || until_ns <= d->now_ns)
        return 0;
    if (until_ns != UINT64_MAX)
        d->now_ns = until_ns;
    return 1;
}

static bool door_next(struct weir__io *io, struct weir__io_done *out) {
    struct kit_door *d = of(io);
    if (d->head == d->tail)
        return false;
    *out = d->queue[d->head++ % KIT_DOOR_QUEUE];
    d->nexts++;
    return true;
}

static void door_submit(struct weir__io *io) {
    struct kit_door *d = of(io);
    d->submits++;
    if (d->on_submit)
        d->on_submit(d);
}

static void door_wake(struct weir__io *io) {
    atomic_fetch_add(&of(io)->wakes, 1);
}

static uint64_t door_now(struct weir__io *io) {
    return of(io)->now_ns += of(io)->tick_ns;
}

static uint64_t door_entropy(struct weir__io *io) {
    (void)io;
    return 4; /* chosen by fair dice roll */
}

static const struct weir__io_ops door_ops = {
    .name = "kit",
    .attach = door_attach,
    .connect = door_connect,
    .recv_arm = door_recv_arm,
    .send = door_send,
    .cancel = door_cancel,
    .close = door_close,
    .shutdown = door_shutdown,
    .start = door_start,
    .wait = door_wait,
    .next = door_next,
    .submit = door_submit,
    .wake = door_wake,
    .now = door_now,
    .entropy = door_entropy,
};

void kit_door_queue(struct kit_door *d, struct weir__loop_sink *sink, struct weir__io_done done) {
    done.user = sink;
    assert_true(d->tail - d->head < KIT_DOOR_QUEUE);
    d->queue[d->tail++ % KIT_DOOR_QUEUE] = done;
}

void kit_loop_open(struct kit_loop *k) {
    *k = (struct kit_loop){0};
    k->inbox = weir__loop_inbox_get();
    k->mem = weir__mem_pool_new("kit");
    assert_true(k->inbox && k->mem);
    k->door.now_ns = 1000000000;
    k->door.io = (struct weir__io){
        .ops = &door_ops, .mem = k->mem, .slots = &k->inbox->slots, .sends_inline = true};
    struct weir__loop_env env = {.io = &k->door.io, .mem = k->mem, .inbox = k->inbox, .index = 3};
    assert_int_equal(weir__loop_new(&env, &k->loop), 0);
    k->mem_before = weir__mem_current;
    k->before = weir__loop_enter(k->loop);
    assert_int_equal(weir__loop_start(k->loop), 0);
}

void kit_loop_free(struct kit_loop *k) {
    weir__loop_free(k->loop);
    weir__loop_enter(k->before);
    weir__loop_inbox_put(k->inbox);
    assert_int_equal(weir__mem_pool_free(k->mem), 0);
    weir__mem_enter(k->mem_before);
}

void kit_loop_close(struct kit_loop *k) {
    weir__loop_stop(k->loop, 0);
    while (weir__loop_turn(k->loop) > 0)
        ;
    kit_loop_free(k);
}

void kit_loop_settle(struct kit_loop *k) {
    weir__loop_settle(k->loop);
}
