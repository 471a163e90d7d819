#include "io/slot.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* Blocks belong to their slots for ever, so the tables here are static. */
static struct weir__io_slots one, two;
static int inbox_one, inbox_two;

static int setup(void **state) {
    (void)state;
    weir__io_slots_init(&one, &inbox_one);
    weir__io_slots_init(&two, &inbox_two);
    return 0;
}

static void a_ref_finds_its_object_until_it_is_freed(void **state) {
    (void)state;
    int object;
    uint64_t ref = weir__io_slot_new(&one, &object);
    assert_int_not_equal(ref, 0);
    assert_ptr_equal(weir__io_slot_get(ref), &object);
    assert_ptr_equal(weir__io_slot_owner(ref), &inbox_one);
    weir__io_slot_free(&one, ref);
    assert_null(weir__io_slot_get(ref));
    assert_null(weir__io_slot_owner(ref));
    assert_int_equal(one.used, 0);
}

static void a_reused_slot_has_another_generation(void **state) {
    (void)state;
    int a, b;
    uint64_t first = weir__io_slot_new(&one, &a);
    weir__io_slot_free(&one, first);
    uint64_t second = weir__io_slot_new(&one, &b);
    assert_int_equal(first & WEIR__IO_SLOT_MASK, second & WEIR__IO_SLOT_MASK);
    assert_int_not_equal(first, second);
    assert_null(weir__io_slot_get(first));
    assert_ptr_equal(weir__io_slot_get(second), &b);
    weir__io_slot_free(&one, second);
}

static void any_object_in_use_is_found(void **state) {
    (void)state;
    int object;
    assert_null(weir__io_slots_any(&one));
    uint64_t ref = weir__io_slot_new(&one, &object);
    assert_ptr_equal(weir__io_slots_any(&one), &object);
    weir__io_slot_free(&one, ref);
    assert_null(weir__io_slots_any(&one));
}

static void blocks_of_two_owners_do_not_mix(void **state) {
    (void)state;
    enum { N = 3000 };
    static uint64_t refs[2][N];
    static int objects[2][N];
    for (int i = 0; i < N; i++) {
        refs[0][i] = weir__io_slot_new(&one, &objects[0][i]);
        refs[1][i] = weir__io_slot_new(&two, &objects[1][i]);
    }
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(weir__io_slot_get(refs[0][i]), &objects[0][i]);
        assert_ptr_equal(weir__io_slot_get(refs[1][i]), &objects[1][i]);
        assert_ptr_equal(weir__io_slot_owner(refs[0][i]), &inbox_one);
        assert_ptr_equal(weir__io_slot_owner(refs[1][i]), &inbox_two);
    }
    for (int i = 0; i < N; i++) {
        weir__io_slot_free(&one, refs[0][i]);
        weir__io_slot_free(&two, refs[1][i]);
    }
    assert_int_equal(one.used + two.used, 0);
}

static void tokens_name_kind_slot_and_low_generation(void **state) {
    (void)state;
    int a, b;
    uint64_t ref = weir__io_slot_new(&one, &a);
    uint64_t token = weir__io_token(ref, 0xab);
    assert_int_equal(weir__io_token_kind(token), 0xab);
    assert_ptr_equal(weir__io_token_get(token), &a);
    weir__io_slot_free(&one, ref);
    uint64_t again = weir__io_slot_new(&one, &b);
    assert_null(weir__io_token_get(token));
    assert_ptr_equal(weir__io_token_get(weir__io_token(again, 1)), &b);
    weir__io_slot_free(&one, again);
}

static void set_generation(uint64_t ref, uint64_t generation) {
    atomic_store(&weir__io_slot_at(ref)->generation, generation);
}

/* The low 32 bits pass through zero: refs stay apart by their upper bits, tokens of the neighbour
 * generations by the lower. */
static void the_low_generation_wraps(void **state) {
    (void)state;
    int a;
    uint64_t ref = weir__io_slot_new(&one, &a), slot = ref & WEIR__IO_SLOT_MASK;
    set_generation(ref, UINT64_C(0xffffffff));
    uint64_t before = UINT64_C(0xffffffff) << WEIR__IO_SLOT_BITS | slot;
    weir__io_slot_free(&one, before);
    uint64_t after = weir__io_slot_new(&one, &a);
    assert_int_equal(after >> WEIR__IO_SLOT_BITS, UINT64_C(0x100000000));
    assert_null(weir__io_token_get(weir__io_token(before, 1)));
    assert_null(weir__io_slot_get(before));
    assert_ptr_equal(weir__io_token_get(weir__io_token(after, 1)), &a);
    /* generation 0 is nobody's, although its low bits agree */
    assert_null(weir__io_slot_get(slot));
    weir__io_slot_free(&one, after);
}

static void the_generation_never_is_zero(void **state) {
    (void)state;
    int a;
    uint64_t ref = weir__io_slot_new(&one, &a), slot = ref & WEIR__IO_SLOT_MASK;
    uint64_t last = (UINT64_C(1) << 40) - 1;
    set_generation(ref, last);
    weir__io_slot_free(&one, last << WEIR__IO_SLOT_BITS | slot);
    uint64_t after = weir__io_slot_new(&one, &a);
    assert_int_equal(after >> WEIR__IO_SLOT_BITS, 1);
    weir__io_slot_free(&one, after);
}

static void refs_of_no_block_are_dead(void **state) {
    (void)state;
    assert_null(weir__io_slot_get(UINT64_MAX));
    assert_null(weir__io_slot_owner(UINT64_MAX));
    assert_null(weir__io_token_get(UINT64_MAX));
    assert_null(weir__io_slot_at(WEIR__IO_SLOT_MASK));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ref_finds_its_object_until_it_is_freed),
        cmocka_unit_test(a_reused_slot_has_another_generation),
        cmocka_unit_test(any_object_in_use_is_found),
        cmocka_unit_test(blocks_of_two_owners_do_not_mix),
        cmocka_unit_test(tokens_name_kind_slot_and_low_generation),
        cmocka_unit_test(the_low_generation_wraps),
        cmocka_unit_test(the_generation_never_is_zero),
        cmocka_unit_test(refs_of_no_block_are_dead),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
