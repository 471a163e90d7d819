/* The transport suite: what a connection looks like from inside its handlers, the same on every
 * door and every pair of doors. docs/adr/0001 has the rules; a case states what both ends see as
 * two traces. */
#ifndef WEIR_TESTS_SUITE_SUITE_H
#define WEIR_TESTS_SUITE_SUITE_H
#include "kit/actor.h"

enum suite_only {
    ANYWHERE,
    REAL_ONLY,
    SIM_ONLY,
    RESETS = 4, /* beside one of them: an abort resets the peer, which is IP; over a unix socket the
                   kernel shows it an end */
};

struct suite_case {
    const char *name;
    void (*run)(struct pair *p);
    enum suite_only only;
    struct weir__iosim_options sim; /* the network, but for its seed */
};

/* Each ends with a name of NULL. */
extern const struct suite_case suite_order[], suite_marks[], suite_credit[], suite_pull[],
    suite_close[], suite_life[], suite_connect[], suite_many[], suite_file[], suite_proxy[],
    suite_pipeline[], suite_threads[], suite_stop[], suite_dgram[], suite_fds[], suite_pin[];

/* A network that is quick enough for megabytes. */
#define WIDE_NET \
    { .segment_max = 65536, .window_bytes = 262144, .delay_us_max = 200 }

#endif
