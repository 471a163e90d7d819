/* Pauses out of the kernel's texts: parsing, growth, quotas along the groups. */
#include "kit/door.h"
#include "rt/pause.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

struct file {
    const char *path, *text;
};

struct files {
    struct file at[8];
};

static int read_files(void *user, const char *path, char *buf, size_t cap) {
    struct files *f = user;
    for (unsigned i = 0; i < 8 && f->at[i].path; i++)
        if (strcmp(f->at[i].path, path) == 0)
            return snprintf(buf, cap, "%s", f->at[i].text);
    return -ENOENT;
}

static void schedstat(void **state) {
    uint64_t ran, waited;
    (void)state;
    assert_true(weir__rt_pause_schedstat("1183405 52871 19\n", &ran, &waited));
    assert_int_equal(ran, 1183405);
    assert_int_equal(waited, 52871);
    assert_false(weir__rt_pause_schedstat("", &ran, &waited));
    assert_false(weir__rt_pause_schedstat("12\n", &ran, &waited));
}

static void stat_with_any_name(void **state) {
    uint64_t n;
    (void)state;
    assert_true(weir__rt_pause_stat("71 (weir-loop-0) S 1 71 71 0 -1 4194624 900 0 17 0 5 6", &n));
    assert_int_equal(n, 17);
    assert_true(weir__rt_pause_stat("71 (a) R (7) S 1 71 71 0 -1 4194624 900 0 3 0", &n));
    assert_int_equal(n, 3);
    assert_false(weir__rt_pause_stat("71 weir", &n));
    assert_false(weir__rt_pause_stat("71 (weir) S 1 2 3", &n));
}

static void cpu_stat_of_both_kinds(void **state) {
    uint64_t count, ns;
    (void)state;
    assert_true(weir__rt_pause_cpu_stat(
        "usage_usec 5\nuser_usec 3\nnr_periods 9\nnr_throttled 4\nthrottled_usec 1500\n", &count,
        &ns));
    assert_int_equal(count, 4);
    assert_int_equal(ns, 1500000);
    assert_true(
        weir__rt_pause_cpu_stat("nr_periods 9\nnr_throttled 2\nthrottled_time 777", &count, &ns));
    assert_int_equal(count, 2);
    assert_int_equal(ns, 777);
    assert_false(weir__rt_pause_cpu_stat("usage_usec 5\n", &count, &ns));
    assert_false(weir__rt_pause_cpu_stat("nr_throttled 2\n", &count, &ns));
    assert_false(weir__rt_pause_cpu_stat("", &count, &ns));
}

static uint64_t count(struct kit_loop *k, enum weir_pause_kind kind) {
    return k->loop->pauses[kind].count;
}

static void what_grows_is_a_pause(void **state) {
    struct files f = {{{"/proc/self/task/7/schedstat", "100 0 1"},
                       {"/proc/self/task/7/stat", "7 (a) S 1 7 7 0 -1 0 9 0 2 0"}}};
    struct weir__rt_pause_loop p = {0};
    struct kit_loop k;
    (void)state;
    kit_loop_open(&k);
    weir__rt_pause_loop_look(&p, k.loop, 7, read_files, &f);
    assert_int_equal(count(&k, WEIR_PAUSE_RUN_QUEUE), 0);
    assert_int_equal(count(&k, WEIR_PAUSE_FAULT), 2);
    f.at[0].text = "200 5000 2";
    weir__rt_pause_loop_look(&p, k.loop, 7, read_files, &f);
    f.at[0].text = "300 5000 3";
    weir__rt_pause_loop_look(&p, k.loop, 7, read_files, &f);
    f.at[0].text = "400 6000 4";
    weir__rt_pause_loop_look(&p, k.loop, 7, read_files, &f);
    assert_int_equal(count(&k, WEIR_PAUSE_RUN_QUEUE), 2);
    assert_int_equal(k.loop->pauses[WEIR_PAUSE_RUN_QUEUE].longest_ns, 5000);
    assert_int_equal(k.loop->pauses[WEIR_PAUSE_RUN_QUEUE].total_ns, 6000);
    assert_int_equal(count(&k, WEIR_PAUSE_FAULT), 2);
    assert_int_equal(k.loop->pauses_known, 1u << WEIR_PAUSE_RUN_QUEUE | 1u << WEIR_PAUSE_FAULT);
    kit_loop_close(&k);
}

static void a_kernel_that_does_not_say(void **state) {
    struct files f = {{{"/proc/self/task/7/schedstat", "0 0 0"}}};
    struct weir__rt_pause_loop p = {0};
    struct kit_loop k;
    (void)state;
    kit_loop_open(&k);
    weir__rt_pause_loop_look(&p, k.loop, 7, read_files, &f);
    assert_int_equal(k.loop->pauses_known, 0);
    kit_loop_close(&k);
}

/* The group and its parent have a quota, the root has none; what was there before is not ours. */
static void a_quota_is_looked_for_upwards(void **state) {
    struct files f = {{{"/proc/self/cgroup", "0::/a/b\n"},
                       {"/sys/fs/cgroup/a/b/cpu.stat", "nr_throttled 4\nthrottled_usec 10\n"},
                       {"/sys/fs/cgroup/a/cpu.stat", "nr_throttled 1\nthrottled_usec 5\n"},
                       {"/sys/fs/cgroup/cpu.stat", "usage_usec 9\n"}}};
    struct weir__rt_pause_quota q;
    struct kit_loop k;
    (void)state;
    kit_loop_open(&k);
    weir__rt_pause_quota_init(&q, read_files, &f);
    assert_int_equal(q.n, 2);
    weir__rt_pause_quota_look(&q, &k.loop, 1, read_files, &f);
    assert_int_equal(k.loop->pauses_known, 1u << WEIR_PAUSE_THROTTLE);
    assert_int_equal(count(&k, WEIR_PAUSE_THROTTLE), 0);
    f.at[2].text = "nr_throttled 3\nthrottled_usec 25\n";
    weir__rt_pause_quota_look(&q, &k.loop, 1, read_files, &f);
    assert_int_equal(count(&k, WEIR_PAUSE_THROTTLE), 2);
    assert_int_equal(k.loop->pauses[WEIR_PAUSE_THROTTLE].total_ns, 20000);
    kit_loop_close(&k);
}

static void version_1_is_read_once(void **state) {
    struct files f = {
        {{"/proc/self/cgroup", "3:cpu,cpuacct:/x\n"},
         {"/sys/fs/cgroup/cpu/x/cpu.stat", "nr_throttled 4\nthrottled_time 10\n"},
         {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.stat", "nr_throttled 4\nthrottled_time 10\n"}}};
    struct weir__rt_pause_quota q;
    (void)state;
    weir__rt_pause_quota_init(&q, read_files, &f);
    assert_int_equal(q.n, 1);
    assert_int_equal(q.ns, 10);
}

static void no_quota_at_all(void **state) {
    struct files f = {{{"/proc/self/cgroup", "0::/\n"}}};
    struct weir__rt_pause_quota q;
    struct kit_loop k;
    (void)state;
    kit_loop_open(&k);
    weir__rt_pause_quota_init(&q, read_files, &f);
    assert_int_equal(q.n, 0);
    weir__rt_pause_quota_look(&q, &k.loop, 1, read_files, &f);
    assert_int_equal(k.loop->pauses_known, 0);
    f.at[0].path = NULL;
    weir__rt_pause_quota_init(&q, read_files, &f);
    assert_int_equal(q.n, 0);
    kit_loop_close(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedstat),
        cmocka_unit_test(stat_with_any_name),
        cmocka_unit_test(cpu_stat_of_both_kinds),
        cmocka_unit_test(what_grows_is_a_pause),
        cmocka_unit_test(a_kernel_that_does_not_say),
        cmocka_unit_test(a_quota_is_looked_for_upwards),
        cmocka_unit_test(version_1_is_read_once),
        cmocka_unit_test(no_quota_at_all),
    };
    return cmocka_run_group_tests_name("rt/pause", tests, NULL, NULL);
}
