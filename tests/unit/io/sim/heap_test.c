#include "world.h"
#include "base/rng.h"
#include "io/sim/heap.h"

static void events_come_in_order_of_time_tie_and_sequence(void **state) {
    (void)state;
    struct weir_mem *m = weir_mem_open("heap");
    struct weir__iosim_heap h = {0};
    struct weir__base_rng rng;
    weir__base_rng_seed(&rng, 1);
    for (uint64_t i = 0; i < 5000; i++)
        weir__iosim_heap_push(&h, m,
                              &(struct weir__iosim_event){.at_ns = weir__base_rng_below(&rng, 50),
                                                          .tie = weir__base_rng_below(&rng, 3),
                                                          .seq = i});
    struct weir__iosim_event last = {0};
    for (int i = 0; i < 5000; i++) {
        struct weir__iosim_event e = weir__iosim_heap_pop(&h);
        assert_true(e.at_ns > last.at_ns || (e.at_ns == last.at_ns && e.tie > last.tie) ||
                    (e.at_ns == last.at_ns && e.tie == last.tie && (e.seq > last.seq || i == 0)));
        last = e;
    }
    assert_int_equal(h.n, 0);
    weir__iosim_heap_fini(&h);
    weir__mem_collect(m);
    assert_int_equal(weir_mem_live(m), 0);
    weir_mem_close(m);
    weir__mem_enter(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_in_order_of_time_tie_and_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
