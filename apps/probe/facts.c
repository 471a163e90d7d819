#include "probe/facts.h"
#include "cli/opt.h"
#include "weir/host.h"
#include "weir/loop.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Under these a server or a load client of ours meets the wall in ordinary use. */
enum {
    FILES_WANTED = 65536,     /* connections of one process */
    BACKLOG_WANTED = 4096,    /* what our listeners ask for */
    PORTS_WANTED = 20000,     /* connections of a client towards one address */
    TIME_WAIT_WANTED = 16384, /* short connections remembered after their end */
};

struct facts {
    struct fact *all;
    unsigned n;
};

const char *fact_verdict_text(enum fact_verdict v) {
    static const char *const text[] = {"fine", "too small", "missing", "unknown", "off"};
    return text[v];
}

static struct fact *fact(struct facts *f, const char *name, enum fact_verdict v, const char *note) {
    struct fact *x = &f->all[f->n++];
    *x = (struct fact){.verdict = v};
    snprintf(x->name, sizeof x->name, "%s", name);
    snprintf(x->note, sizeof x->note, "%s", note);
    return x;
}

static void value(struct fact *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void value(struct fact *x, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(x->value, sizeof x->value, format, arguments);
    va_end(arguments);
}

/* The numbers in a file of /proc/sys: how many were read. */
static int numbers(const char *path, uint64_t *a, uint64_t *b) {
    FILE *in = fopen(path, "re");
    if (!in)
        return 0;
    int n = fscanf(in, "%" SCNu64 "%" SCNu64, a, b);
    fclose(in);
    return n < 0 ? 0 : n;
}

/* --- the machine ----------------------------------------------------------------------------- */

static void read_kernel(struct facts *f) {
    struct utsname u;
    struct fact *x = fact(f, "kernel", FACT_UNKNOWN, "uname failed");
    if (uname(&u) < 0)
        return;
    char *rest;
    unsigned long major = strtoul(u.release, &rest, 10),
                  minor = *rest == '.' ? strtoul(rest + 1, NULL, 10) : 0;
    bool enough = major > 5 || (major == 5 && minor >= 11);
    x->verdict = enough ? FACT_FINE : FACT_SMALL;
    value(x, "%s %.60s %.40s", u.sysname, u.release, u.machine);
    snprintf(x->note, sizeof x->note, "%s",
             enough
                 ? "epoll_pwait2 (5.11) is there: timers are exact below a millisecond"
                 : "before 5.11 epoll waits in whole milliseconds; io_uring is best from 6.12 on");
}

static void read_cpus(struct facts *f, const struct weir_host *h) {
    struct fact *x = fact(f, "cpus", FACT_FINE,
                          "a group takes this many loops unless told otherwise");
    if (h->quota_milli)
        value(x, "%u usable (affinity %u, quota %.2f)", h->cpus, h->cpus_allowed,
              h->quota_milli / 1000.0);
    else
        value(x, "%u usable (affinity %u, no quota)", h->cpus, h->cpus_allowed);
    if (h->quota_milli && h->quota_milli < h->cpus_allowed * 1000u) {
        x->verdict = FACT_SMALL;
        snprintf(x->note, sizeof x->note,
                 "the cgroup quota is below the CPUs allowed: when it is used up, every loop "
                 "stands still until the period ends");
    } else if (h->cpus < 2) {
        x->verdict = FACT_SMALL;
        snprintf(x->note, sizeof x->note,
                 "client and server share one CPU here: rates measured on it say little");
    }
}

static void read_files(struct facts *f, const struct weir_host *h) {
    struct fact *x = fact(f, "files", FACT_FINE,
                          "the programs raise the limit to the hard one when they start");
    value(x, "%" PRIu64 " now, %" PRIu64 " possible", h->files_now, h->files_max);
    if (h->files_max >= FILES_WANTED)
        return;
    x->verdict = FACT_SMALL;
    snprintf(x->note, sizeof x->note,
             "each connection is one descriptor; raise the hard limit (ulimit -Hn, LimitNOFILE=) "
             "above %d",
             FILES_WANTED);
}

/* --- the network namespace ------------------------------------------------------------------- */

static void read_sysctl(struct facts *f, const char *name, const char *path, uint64_t wanted,
                        const char *fine, const char *small) {
    uint64_t a, b;
    struct fact *x = fact(f, name, FACT_UNKNOWN, "the kernel does not show it here");
    if (!numbers(path, &a, &b))
        return;
    value(x, "%" PRIu64, a);
    x->verdict = a >= wanted ? FACT_FINE : FACT_SMALL;
    snprintf(x->note, sizeof x->note, "%s", a >= wanted ? fine : small);
}

static void read_ports(struct facts *f) {
    uint64_t low, high;
    struct fact *x = fact(f, "ports", FACT_UNKNOWN, "the kernel does not show the range");
    if (numbers("/proc/sys/net/ipv4/ip_local_port_range", &low, &high) < 2 || high < low)
        return;
    value(x, "%" PRIu64 " to %" PRIu64 " (%" PRIu64 ")", low, high, high - low + 1);
    bool enough = high - low + 1 >= PORTS_WANTED;
    x->verdict = enough ? FACT_FINE : FACT_SMALL;
    snprintf(x->note, sizeof x->note, "%s",
             enough ? "connections a client may have towards one address and port"
                    : "a client runs out of local ports early: widen net.ipv4.ip_local_port_range");
}

/* --- sockets --------------------------------------------------------------------------------- */

/* What the defaults come to here, asked of a socket. */
static void read_socket(struct facts *f, const char *name, bool listener, const char *note) {
    struct weir_socket_options s;
    char in[32], out[32], timeout[32] = "the kernel's";
    struct fact *x = fact(f, name, FACT_UNKNOWN, "");
    int rc = weir_host_socket(NULL, listener, &s);
    if (rc < 0) {
        snprintf(x->note, sizeof x->note, "%s", weir_strerror(rc));
        return;
    }
    x->verdict = FACT_FINE;
    value(x, "%s, keepalive %u,%u,%u", s.nagle ? "nagle" : "nodelay", s.keepalive_idle_s,
          s.keepalive_interval_s, s.keepalive_count);
    cli_bytes_text(s.rcvbuf_bytes, in);
    cli_bytes_text(s.sndbuf_bytes, out);
    if (s.user_timeout_ms)
        snprintf(timeout, sizeof timeout, "%u ms", s.user_timeout_ms);
    snprintf(x->note, sizeof x->note,
             "%s; user timeout %s; buffers tuned from %s to receive and %s to send", note, timeout,
             in, out);
}

/* The last number of a file of /proc/sys: the ceiling. */
static bool ceiling(const char *path, uint64_t *out) {
    FILE *in = fopen(path, "re");
    if (!in)
        return false;
    bool any = false;
    while (fscanf(in, "%" SCNu64, out) == 1)
        any = true;
    fclose(in);
    return any;
}

/* factor: the kernel's own bookkeeping takes about as much as the bytes, which a fixed size does
 * not count and the tuning's ceiling does. */
static void read_ceiling(struct facts *f, const struct facts_path *p, const char *name,
                         const char *path, unsigned factor, const char *option) {
    uint64_t have, wanted = p->bytes * factor;
    struct fact *x = fact(f, name, FACT_UNKNOWN, "the kernel does not show it here");
    if (!ceiling(path, &have))
        return;
    value(x, "%" PRIu64, have);
    x->verdict = have >= wanted ? FACT_FINE : FACT_SMALL;
    if (have >= wanted)
        snprintf(x->note, sizeof x->note, "%s is %" PRIu64 " bytes: %s fill it", p->text, p->bytes,
                 option);
    else
        snprintf(x->note, sizeof x->note,
                 "%s is %" PRIu64
                 " bytes in flight, and %s stop below that: raise %snet.%s to %" PRIu64,
                 p->text, p->bytes, option, factor > 1 ? "the third number of " : "", name, wanted);
}

static void read_sockets(struct facts *f, const struct facts_path *p) {
    read_socket(f, "server", true, "socket defaults of a listener, inherited by what it accepts");
    read_socket(f, "client", false, "socket defaults of an outgoing connection");
    read_ceiling(f, p, "core.rmem_max", "/proc/sys/net/core/rmem_max", 1, "--bdp and --rcvbuf");
    read_ceiling(f, p, "core.wmem_max", "/proc/sys/net/core/wmem_max", 1, "--bdp and --sndbuf");
    read_ceiling(f, p, "ipv4.tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem", 2, "tuned receive buffers");
    read_ceiling(f, p, "ipv4.tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem", 2, "tuned send buffers");
}

/* --- transports ------------------------------------------------------------------------------ */

/* Found out by trying: what the kernel, its configuration and this sandbox allow together. */
static void try_transport(struct facts *f, const char *name, const char *transport,
                          const char *trigger) {
    struct weir_group_options o = {
        .size = sizeof o, .loops = 1, .transport = transport, .trigger = trigger};
    struct weir_group *g;
    struct fact *x = fact(f, name, FACT_MISSING, "");
    int rc = weir_group_new(&o, &g);
    if (rc < 0) {
        value(x, "no");
        snprintf(x->note, sizeof x->note, "%s", weir_strerror(rc));
        return;
    }
    const char *why, *got = weir_group_transport(g, &why);
    bool works = !strncmp(got, transport, strlen(transport));
    x->verdict = works ? FACT_FINE : FACT_MISSING;
    value(x, "%s", works ? "works" : "no");
    snprintf(x->note, sizeof x->note, "%s",
             works ? ""
             : why ? why
                   : "the loops fell back to another transport");
    weir_group_join(g);
}

static void feature(struct facts *f, const struct weir_uring_feature *u) {
    static const struct {
        const char *value;
        enum fact_verdict verdict;
    } states[] = {[WEIR_URING_WORKS] = {"works", FACT_FINE},
                  [WEIR_URING_OFF] = {"switched off", FACT_OFF},
                  [WEIR_URING_MISSING] = {"no", FACT_MISSING}};
    char name[32];
    snprintf(name, sizeof name, "uring.%s", u->name);
    struct fact *x = fact(f, name, states[u->state].verdict, u->what);
    value(x, "%s", states[u->state].value);
}

static void read_uring(struct facts *f, const char *features) {
    struct weir_host_uring u = {.size = sizeof u};
    int rc = weir_host_uring(features, &u);
    struct fact *x = fact(f, "uring", FACT_FINE, "");
    if (rc < 0 || u.why) {
        x->verdict = FACT_MISSING;
        value(x, "no");
        snprintf(x->note, sizeof x->note, "%s", rc < 0 ? weir_strerror(rc) : u.why);
    } else {
        value(x, "works");
        for (unsigned i = 0; i < u.n_features; i++)
            feature(f, &u.features[i]);
    }
    x = fact(f, "auto", FACT_FINE, u.why_not_auto ? u.why_not_auto : "it costs less CPU here");
    value(x, "%s", u.why_not_auto ? "epoll" : "uring");
}

unsigned facts_read(struct fact all[FACTS_MAX], const struct facts_path *path,
                    const char *uring_features) {
    struct facts f = {.all = all};
    struct weir_host h = {.size = sizeof h};
    read_kernel(&f);
    int rc = weir_host_read(&h);
    if (rc < 0) {
        fact(&f, "host", FACT_UNKNOWN, weir_strerror(rc));
    } else {
        read_cpus(&f, &h);
        read_files(&f, &h);
    }
    read_sysctl(&f, "somaxconn", "/proc/sys/net/core/somaxconn", BACKLOG_WANTED,
                "connections that may wait to be accepted, per listener",
                "bursts of connects overflow the accept queue: raise net.core.somaxconn to 4096");
    read_sysctl(&f, "syn-backlog", "/proc/sys/net/ipv4/tcp_max_syn_backlog", 512,
                "handshakes that may be half done, per listener",
                "bursts of connects are dropped or answered by cookies: raise "
                "net.ipv4.tcp_max_syn_backlog");
    read_ports(&f);
    read_sysctl(&f, "time-wait", "/proc/sys/net/ipv4/tcp_max_tw_buckets", TIME_WAIT_WANTED,
                "closed connections the kernel remembers for a minute",
                "short connections lose their TIME_WAIT early: raise net.ipv4.tcp_max_tw_buckets");
    read_sockets(&f, path);
    try_transport(&f, "epoll-lt", "epoll", "lt");
    try_transport(&f, "epoll-et", "epoll", "et");
    read_uring(&f, uring_features);
    return f.n;
}
