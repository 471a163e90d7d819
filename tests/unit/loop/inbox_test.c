/* The inbox: order of each writer, closing, wake-ups. */
#include "kit/door.h"
#include "mem/raw.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

enum { WRITERS = 4, EACH = 5000 };

struct message {
    struct weir__loop_node node;
    unsigned writer, number;
};

static struct message *of(struct weir__loop_node *n) {
    return container_of(n, struct message, node);
}

static void nodes_come_out_as_they_went_in(void **state) {
    (void)state;
    struct kit_loop k;
    struct message m[5];
    kit_loop_open(&k);
    assert_null(weir__loop_inbox_take(k.inbox));
    for (unsigned i = 0; i < 5; i++) {
        m[i].number = i;
        assert_int_equal(weir__loop_inbox_push(k.inbox, &m[i].node), 0);
    }
    unsigned i = 0;
    for (struct weir__loop_node *n = weir__loop_inbox_take(k.inbox); n; n = n->next)
        assert_int_equal(of(n)->number, i++);
    assert_int_equal(i, 5);
    assert_null(weir__loop_inbox_take(k.inbox));
    assert_int_equal(k.inbox->pushed, 5);
    kit_loop_close(&k);
}

static void a_closed_one_refuses_and_gives_back_what_it_had(void **state) {
    (void)state;
    struct kit_loop k;
    struct weir__loop_inbox *b = weir__loop_inbox_get();
    struct message m = {0}, late = {.node.next = (void *)&m};
    assert_int_equal(weir__loop_inbox_push(b, &m.node), WEIR_ESTOPPED); /* never opened */
    kit_loop_open(&k);
    weir__loop_inbox_open(b, k.loop);
    assert_int_equal(weir__loop_inbox_push(b, &m.node), 0);
    assert_ptr_equal(weir__loop_inbox_close(b), &m.node);
    assert_int_equal(weir__loop_inbox_push(b, &late.node), WEIR_ESTOPPED);
    assert_ptr_equal(late.node.next, &m); /* untouched */
    assert_null(weir__loop_inbox_take(b));
    assert_true(weir__loop_inbox_doze(b));
    kit_loop_close(&k);
    weir__loop_inbox_put(b);
    assert_ptr_equal(weir__loop_inbox_get(), b); /* used again, never freed */
    weir__loop_inbox_put(b);
}

static void one_wake_for_many_while_it_sleeps(void **state) {
    (void)state;
    struct kit_loop k;
    struct message m[6];
    kit_loop_open(&k);
    weir__loop_inbox_push(k.inbox, &m[0].node); /* awake: nobody is woken */
    assert_int_equal(k.door.wakes, 0);
    assert_false(weir__loop_inbox_doze(k.inbox)); /* something is there */
    weir__loop_inbox_push(k.inbox, &m[1].node);
    assert_int_equal(k.door.wakes, 0);
    weir__loop_inbox_take(k.inbox);
    assert_true(weir__loop_inbox_doze(k.inbox));
    weir__loop_inbox_push(k.inbox, &m[2].node);
    weir__loop_inbox_push(k.inbox, &m[3].node);
    assert_int_equal(k.door.wakes, 1);
    assert_int_equal(k.inbox->wakes, 1);
    weir__loop_inbox_awake(k.inbox);
    weir__loop_inbox_take(k.inbox);
    assert_true(weir__loop_inbox_doze(k.inbox));
    weir__loop_inbox_awake(k.inbox);
    weir__loop_inbox_push(k.inbox, &m[4].node);
    assert_int_equal(k.door.wakes, 1);
    weir__loop_inbox_take(k.inbox);
    kit_loop_close(&k);
}

static void no_memory_no_inbox(void **state) {
    (void)state;
    struct weir__loop_inbox *held[64];
    unsigned n = 0;
    weir__mem_raw_fail(1);
    while ((held[n] = weir__loop_inbox_get())) /* those that wait for use need none */
        assert_true(++n < 64);
    weir__mem_raw_fail(0);
    while (n)
        weir__loop_inbox_put(held[--n]);
}

struct writer {
    pthread_t thread;
    struct weir__loop_inbox *inbox;
    struct message *messages;
    unsigned index, accepted;
};

static void *write_all(void *user) {
    struct writer *w = user;
    for (unsigned i = 0; i < EACH; i++) {
        w->messages[i].writer = w->index;
        w->messages[i].number = i;
        if (weir__loop_inbox_push(w->inbox, &w->messages[i].node) < 0)
            break;
        w->accepted++;
    }
    return NULL;
}

static unsigned check_order(struct weir__loop_node *n, unsigned next[WRITERS]) {
    unsigned seen = 0;
    for (; n; n = n->next, seen++)
        assert_int_equal(of(n)->number, next[of(n)->writer]++);
    return seen;
}

static void each_writer_keeps_its_order(void **state) {
    (void)state;
    for (unsigned close_at = EACH; close_at <= 2 * WRITERS * EACH; close_at += WRITERS * EACH) {
        struct kit_loop k;
        struct writer w[WRITERS] = {0};
        unsigned next[WRITERS] = {0}, seen = 0;
        kit_loop_open(&k);
        struct weir__loop_inbox *b = weir__loop_inbox_get();
        weir__loop_inbox_open(b, k.loop);
        for (unsigned i = 0; i < WRITERS; i++) {
            w[i] = (struct writer){
                .inbox = b, .index = i, .messages = calloc(EACH, sizeof(struct message))};
            assert_int_equal(pthread_create(&w[i].thread, NULL, write_all, &w[i]), 0);
        }
        while (seen < close_at && seen < WRITERS * EACH) { /* a loop that always goes to sleep */
            weir__loop_inbox_doze(b);
            weir__loop_inbox_awake(b);
            seen += check_order(weir__loop_inbox_take(b), next);
        }
        check_order(weir__loop_inbox_close(b), next); /* what was accepted comes out */
        for (unsigned i = 0; i < WRITERS; i++) {
            pthread_join(w[i].thread, NULL);
            assert_int_equal(next[i], w[i].accepted);
            free(w[i].messages);
        }
        weir__loop_inbox_put(b);
        kit_loop_close(&k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_come_out_as_they_went_in),
        cmocka_unit_test(a_closed_one_refuses_and_gives_back_what_it_had),
        cmocka_unit_test(one_wake_for_many_while_it_sleeps),
        cmocka_unit_test(no_memory_no_inbox),
        cmocka_unit_test(each_writer_keeps_its_order),
    };
    return cmocka_run_group_tests_name("loop/inbox", tests, NULL, NULL);
}
