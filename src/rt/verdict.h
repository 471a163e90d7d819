/* What a profile allows to be said. Pure: a table in, a sentence out. */
#ifndef WEIR_RT_VERDICT_H
#define WEIR_RT_VERDICT_H
#include "weir/profile.h"

enum {
    WEIR__RT_VERDICT_SAMPLES_MIN = 20,
    WEIR__RT_VERDICT_PARTS = 10,
    WEIR__RT_VERDICT_PARTS_MIN = 5,
    WEIR__RT_VERDICT_SHARE_MIN = 25, /* percent */
    WEIR__RT_VERDICT_APART_MAX = 15, /* points */
};

/* Fills s->verdict from the rest of s. Handlers come most samples first. */
void weir__rt_verdict(struct weir_profile_summary *s);

#endif
