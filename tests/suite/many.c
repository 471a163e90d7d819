/* Many at once, and the walls: descriptors and memory. */
#include "suite/suite.h"
#include <sys/resource.h>
#include <unistd.h>

enum { STORM = 200, CROWD = 24 };

static int echo_one(struct actor *a, struct weir_chain *in) {
    struct weir_chain out = {0};
    a->got += in->bytes;
    weir_chain_append(&out, in);
    return send_chain(a, &out);
}

static int say_x(struct actor *a) {
    return say(a, "x");
}

static int close_after_answer(struct actor *a, struct weir_chain *in) {
    actor_take(a, in, in->bytes);
    close_it(a, WEIR_DRAIN);
    return 0;
}

static void a_storm_of_clients(struct pair *p) {
    struct actor s = {.read = echo_one}, c = {.open = say_x, .read = close_after_answer};
    serve(p, SERVER, &s);
    for (int i = 0; i < STORM; i++)
        dial(p, CLIENT, &c);
    until(p, s.closes == STORM && c.closes == STORM);
    demand(p, s.opens == STORM && c.opens == STORM);
    demand(p, s.got == STORM && c.got == STORM && s.eofs == STORM);
    pair_close(p);
}

static void close_now(struct actor *a, struct weir_chan *ch) {
    if (ch)
        weir_chan_close(ch, WEIR_DRAIN);
    demand(a->pair, a->status == 0);
}

static void a_storm_that_leaves_at_once(struct pair *p) {
    struct actor s = {0}, c = {.connected = close_now};
    serve(p, SERVER, &s);
    for (int i = 0; i < STORM; i++)
        dial(p, CLIENT, &c);
    until(p, s.opens == STORM && s.closes == STORM && c.closes == STORM);
    demand(p, s.eofs == STORM);
    pair_close(p);
}

static void waves(struct pair *p) {
    struct actor s = {.read = echo_one}, c = {.open = say_x, .read = close_after_answer};
    serve(p, SERVER, &s);
    for (unsigned wave = 1; wave <= 10; wave++) {
        for (int i = 0; i < 20; i++)
            dial(p, CLIENT, &c);
        until(p, s.opens >= wave * 10);
    }
    until(p, s.closes == 200 && c.closes == 200);
    pair_close(p);
}

static int hi_and_close(struct actor *a) {
    say(a, "hi");
    close_it(a, WEIR_DRAIN);
    return 0;
}

static uint64_t walls(struct pair *p) {
    return atomic_load(&p->side[SERVER].loop->counters.refused_fds);
}

/* Clients are there before the server looks, and there are fewer descriptors than clients: those
 * that do not fit wait. */
static void descriptors_run_out(struct pair *p) {
    struct actor s = {.open = hi_and_close}, c = {0};
    struct rlimit before;
    serve(p, SERVER, &s);
    getrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < CROWD; i++)
        dial(p, CLIENT, &c);
    if (!p->net) {
        int next = dup(0); /* the lowest free one */
        close(next);
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next + 2, before.rlim_max});
    }
    pair_begin(p, "everybody was served");
    while (s.closes < CROWD || c.closes < CROWD)
        pair_step(p, __FILE__, __LINE__);
    setrlimit(RLIMIT_NOFILE, &before);
    demand(p, walls(p) > 0);
    demand(p, s.opens == CROWD && c.opens == CROWD && c.got == 2 * CROWD && c.eofs == CROWD);
    pair_close(p);
}

static void no_buffer_is_only_a_delay(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    struct weir_mem *m = p->side[SERVER].mem;
    link_up(p, &s, &c);
    weir__mem_budget_set(m, weir_mem_live(m) + 8192);
    demand(p, pour(&c, 3000) == 0);
    pair_settle(p);
    weir__mem_budget_set(m, UINT64_MAX);
    until(p, s.got == 3000);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 3000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

static void buffers_fail_now_and_then(struct pair *p) {
    struct actor s = {.pattern = true}, c = {.hush_marks = true};
    link_up(p, &s, &c);
    demand(p, pour(&c, 200000) == 0);
    close_it(&c, WEIR_DRAIN);
    expect_end(p, &s, "open; read 200000 ok; eof clean; close 0", &c, "open; close 0");
    pair_close(p);
}

const struct suite_case suite_many[] = {
    {"many.storm", a_storm_of_clients, ANYWHERE, {0}},
    {"many.storm_that_leaves", a_storm_that_leaves_at_once, ANYWHERE, {0}},
    {"many.waves", waves, ANYWHERE, {0}},
    {"wall.descriptors", descriptors_run_out, ANYWHERE, {.emfile_at = CROWD + 4}},
    {"wall.no_buffer", no_buffer_is_only_a_delay, ANYWHERE, {0}},
    {"wall.buffers_now_and_then", buffers_fail_now_and_then, SIM_ONLY, {.enomem_ppm = 200000}},
    {0},
};
