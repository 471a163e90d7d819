#include "os/cpu.h"
#include "os/fault.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void v2_text(void **state) {
    (void)state;
    assert_int_equal(weir__os_cpu_quota_v2("max 100000\n"), 0);
    assert_int_equal(weir__os_cpu_quota_v2("150000 100000\n"), 1500);
    assert_int_equal(weir__os_cpu_quota_v2("100000 100000"), 1000);
    assert_int_equal(weir__os_cpu_quota_v2("100001 100000"), 1001);
    assert_int_equal(weir__os_cpu_quota_v2("1 1000000"), 1);
    assert_int_equal(weir__os_cpu_quota_v2("0 100000"), 1);
    static const char *const senseless[] = {
        "", "max", "5", "5 ", "5 0", "x y", "-1 10", "5\t100", "5 x", "99999999999999999999 1"};
    for (size_t i = 0; i < sizeof senseless / sizeof senseless[0]; i++)
        assert_int_equal(weir__os_cpu_quota_v2(senseless[i]), 0);
}

static void v1_text(void **state) {
    (void)state;
    assert_int_equal(weir__os_cpu_quota_v1("-1\n", "100000\n"), 0);
    assert_int_equal(weir__os_cpu_quota_v1("250000\n", "100000\n"), 2500);
    assert_int_equal(weir__os_cpu_quota_v1("250000\n", "0\n"), 0);
    assert_int_equal(weir__os_cpu_quota_v1("", ""), 0);
}

static void finds_its_group(void **state) {
    (void)state;
    static const char hybrid[] = "12:cpuset:/set\n4:cpuacct,cpu:/docker/abc\n1:name=systemd:/x\n"
                                 "0::/user.slice\n";
    char path[64], tiny[4];
    assert_true(weir__os_cpu_cgroup(hybrid, true, path, sizeof path));
    assert_string_equal(path, "/user.slice");
    assert_true(weir__os_cpu_cgroup(hybrid, false, path, sizeof path));
    assert_string_equal(path, "/docker/abc");
    assert_false(weir__os_cpu_cgroup(hybrid, true, tiny, sizeof tiny));
    assert_false(weir__os_cpu_cgroup("0::/a\n", false, path, sizeof path));
    assert_false(weir__os_cpu_cgroup("3:cpu:/a\n", true, path, sizeof path));
    static const char *const senseless[] = {"", "\n\n", "0", "0:", "0::", "0::relative", "::"};
    for (size_t i = 0; i < sizeof senseless / sizeof senseless[0]; i++) {
        assert_false(weir__os_cpu_cgroup(senseless[i], true, path, sizeof path));
        assert_false(weir__os_cpu_cgroup(senseless[i], false, path, sizeof path));
    }
    assert_true(weir__os_cpu_cgroup("0::/last-line-without-end", true, path, sizeof path));
}

struct tree { /* pairs of path and content, NULL at the end */
    const char *const *files;
};

static int read_tree(void *user, const char *path, char *buf, size_t cap) {
    const struct tree *t = user;
    for (size_t i = 0; t->files[i]; i += 2)
        if (strcmp(path, t->files[i]) == 0)
            return snprintf(buf, cap, "%s", t->files[i + 1]);
    return -ENOENT;
}

static uint64_t quota_of(const char *const *files) {
    struct tree t = {files};
    return weir__os_cpu_quota(read_tree, &t);
}

static void the_tightest_ancestor_wins(void **state) {
    (void)state;
    static const char *const v2[] = {"/proc/self/cgroup",
                                     "0::/a/b/c\n",
                                     "/sys/fs/cgroup/a/b/c/cpu.max",
                                     "max 100000\n",
                                     "/sys/fs/cgroup/a/b/cpu.max",
                                     "400000 100000\n",
                                     "/sys/fs/cgroup/a/cpu.max",
                                     "250000 100000\n",
                                     NULL};
    static const char *const namespaced[] = {"/proc/self/cgroup", "0::/\n",
                                             "/sys/fs/cgroup/cpu.max", "50000 100000\n", NULL};
    static const char *const v1[] = {"/proc/self/cgroup",
                                     "4:cpu,cpuacct:/docker/x\n",
                                     "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us",
                                     "-1\n",
                                     "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us",
                                     "100000\n",
                                     "/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us",
                                     "150000\n",
                                     "/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us",
                                     "100000\n",
                                     NULL};
    /* Inside a container the host's path does not exist: the mount root is the container's group.
     */
    static const char *const v1_root[] = {"/proc/self/cgroup",
                                          "4:cpu:/docker/host-path\n",
                                          "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                          "300000\n",
                                          "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
                                          "100000\n",
                                          NULL};
    static const char *const none[] = {"/proc/self/cgroup", "0::/a\n", NULL};
    static const char *const nothing[] = {NULL};
    assert_int_equal(quota_of(v2), 2500);
    assert_int_equal(quota_of(namespaced), 500);
    assert_int_equal(quota_of(v1), 1500);
    assert_int_equal(quota_of(v1_root), 3000);
    assert_int_equal(quota_of(none), 0);
    assert_int_equal(quota_of(nothing), 0);
}

static void this_machine_has_cpus(void **state) {
    (void)state;
    unsigned cpus[WEIR__OS_CPUS_MAX];
    int n = weir__os_cpu_list(cpus, WEIR__OS_CPUS_MAX);
    assert_true(n >= 1 && n <= sysconf(_SC_NPROCESSORS_CONF));
    for (int i = 1; i < n; i++)
        assert_true(cpus[i] > cpus[i - 1]);
    assert_in_range(weir__os_cpu_count(), 1, n);
    assert_int_equal(weir__os_cpu_list(cpus, 1), 1);
}

static void unknown_affinity_means_one(void **state) {
    (void)state;
    struct weir__os_fault f = {.kind = WEIR__OS_AFFINITY, .nth = 1, .error = ENOSYS};
    weir__os_fault_set(&f);
    assert_int_equal(weir__os_cpu_count(), 1);
    weir__os_fault_set(NULL);
    assert_int_equal(f.hit, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v2_text),
        cmocka_unit_test(v1_text),
        cmocka_unit_test(finds_its_group),
        cmocka_unit_test(the_tightest_ancestor_wins),
        cmocka_unit_test(this_machine_has_cpus),
        cmocka_unit_test(unknown_affinity_means_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
