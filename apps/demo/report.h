/* The report of a demo as one HTML file that needs nothing else. */
#ifndef APPS_DEMO_REPORT_H
#define APPS_DEMO_REPORT_H
#include "demo/summary.h"

/* 0, or -1 with errno. */
int report_write(const char *path, const struct workload *w, const struct trial *t);

#endif
