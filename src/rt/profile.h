/* Taking a profile: weir/profile.h on the threads of a group. */
#ifndef WEIR_RT_PROFILE_H
#define WEIR_RT_PROFILE_H
#include "rt/fold.h"
#include "rt/seen.h"
#include "weir/profile.h"

/* Waits for the thread of the last profile that had one. No profile is under way. */
void weir__rt_profile_job_join(struct weir__rt_crowd *c);

#endif
