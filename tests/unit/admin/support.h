/* A simulated group whose last loop is the admin's too. */
#ifndef WEIR_TESTS_UNIT_ADMIN_SUPPORT_H
#define WEIR_TESTS_UNIT_ADMIN_SUPPORT_H
#include "admin/admin.h"
#include "loop/loop.h"
#include "weir/sim.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LOOPS = 2, HOME = LOOPS - 1, S = 1000000000 };

static struct weir_sim *sim;
static struct weir_group *group;
static struct weir__admin *admin;

static inline void tell(struct weir_loop *l, struct weir__admin_told *out) {
    out->listeners = 1;
    out->queue_depth = 10 + l->env.index;
    out->queue_depth_max = 100;
    out->proxy = (struct weir_proxy_stats){.headers = 21, .refused_trust = 3, .refused_time = 4};
}

static inline int start(struct weir_loop *l, void *user) {
    (void)l;
    weir__admin_start(user);
    return 0;
}

static inline void begin(void) {
    struct weir_sim_options o = {.size = sizeof o, .seed = 1, .loops = LOOPS};
    sim = weir_sim_new(&o);
    assert_non_null(sim);
    group = weir_sim_group(sim);
    admin = weir__admin_new(group, group->loops[HOME], tell);
    assert_non_null(admin);
    assert_int_equal(weir__loop_visit(group->loops[HOME], start, admin), 0);
}

static inline void run_ms(uint64_t ms) {
    (void)weir_sim_run(sim, ms, NULL, NULL);
}

static inline int disarm(struct weir_loop *l, void *user) {
    (void)l;
    (void)user;
    weir_timer_disarm(&admin->tick);
    return 0;
}

static inline void end(void) {
    (void)weir__loop_visit(group->loops[HOME], disarm, NULL);
    weir_group_stop(group, 0);
    assert_int_equal(weir_group_join(group), 0);
    weir__admin_free(admin);
    assert_int_equal(weir_sim_free(sim), 0);
}

#endif
