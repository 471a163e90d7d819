/* Everything, for programs that do not care which part. Only weir/sim.h, the simulated world for
 * tests, is included by itself. */
#ifndef WEIR_H
#define WEIR_H
#include "weir/admin.h"
#include "weir/chan.h"
#include "weir/error.h"
#include "weir/frame.h"
#include "weir/heartbeat.h"
#include "weir/hist.h"
#include "weir/host.h"
#include "weir/job.h"
#include "weir/linkd.h"
#include "weir/loop.h"
#include "weir/mem.h"
#include "weir/profile.h"
#include "weir/proxy.h"
#include "weir/socket.h"
#include "weir/stats.h"
#include "weir/str.h"
#endif
