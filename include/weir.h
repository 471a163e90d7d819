/* Everything, for programs that do not care which part. */
#ifndef WEIR_H
#define WEIR_H
#include "weir/chan.h"
#include "weir/error.h"
#include "weir/hist.h"
#include "weir/loop.h"
#include "weir/mem.h"
#include "weir/stats.h"
#include "weir/str.h"
#endif
