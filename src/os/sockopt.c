#include "os/sockopt.h"
#include "os/fault.h"
#include "os/sock.h"
#include "weir/error.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static int set(int fd, int level, int name, const void *value, socklen_t len) {
    int rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    return setsockopt(fd, level, name, value, len) < 0 ? -errno : 0;
}

static int set_int(int fd, int level, int name, int value) {
    return set(fd, level, name, &value, sizeof value);
}

static int get_int(int fd, int level, int name, int *value) {
    socklen_t len = sizeof *value;
    int rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    return getsockopt(fd, level, name, value, &len) < 0 ? -errno : 0;
}

int weir__os_sock_error(int fd) {
    int error = 0, rc = get_int(fd, SOL_SOCKET, SO_ERROR, &error);
    return rc < 0 ? rc : -error;
}

int weir__os_set_nonblock(int fd) {
    int rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    if (rc < 0)
        return rc;
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int weir__os_set_nodelay(int fd, bool on) {
    return set_int(fd, IPPROTO_TCP, TCP_NODELAY, on);
}

int weir__os_set_reuseaddr(int fd, bool on) {
    return set_int(fd, SOL_SOCKET, SO_REUSEADDR, on);
}

int weir__os_set_reuseport(int fd, bool on) {
    return set_int(fd, SOL_SOCKET, SO_REUSEPORT, on);
}

int weir__os_set_keepalive(int fd, unsigned idle_s, unsigned interval_s, unsigned count) {
    int rc = set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)idle_s);
    if (rc == 0)
        rc = set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)interval_s);
    if (rc == 0)
        rc = set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)count);
    return rc < 0 ? rc : set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

int weir__os_set_user_timeout(int fd, unsigned ms) {
    return set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)ms);
}

int weir__os_set_linger0(int fd) {
    struct linger l = {.l_onoff = 1};
    return set(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
}

int weir__os_set_sndbuf(int fd, int bytes) {
    return set_int(fd, SOL_SOCKET, SO_SNDBUF, bytes);
}

int weir__os_set_rcvbuf(int fd, int bytes) {
    return set_int(fd, SOL_SOCKET, SO_RCVBUF, bytes);
}

int weir__os_set_notsent_lowat(int fd, unsigned bytes) {
    return set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)bytes);
}

int weir__os_get_sndbuf(int fd) {
    int bytes = 0, rc = get_int(fd, SOL_SOCKET, SO_SNDBUF, &bytes);
    return rc < 0 ? rc : bytes;
}

int weir__os_get_rcvbuf(int fd) {
    int bytes = 0, rc = get_int(fd, SOL_SOCKET, SO_RCVBUF, &bytes);
    return rc < 0 ? rc : bytes;
}

int weir__os_sock_type(int fd, bool *listens) {
    int type = 0, accepts = 0;
    int rc = get_int(fd, SOL_SOCKET, SO_TYPE, &type);
    if (rc == 0)
        rc = get_int(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts);
    *listens = accepts != 0;
    return rc < 0 ? rc : type;
}

/* --- policy ---------------------------------------------------------------------------------- */

enum { KEEPALIVE_IDLE_S = 60, KEEPALIVE_INTERVAL_S = 15, KEEPALIVE_COUNT = 4 };

static const struct kernel_option {
    int level, name;
} kernel_options[] = {
    [WEIR_SOCKET_NODELAY] = {IPPROTO_TCP, TCP_NODELAY},
    [WEIR_SOCKET_KEEPALIVE] = {SOL_SOCKET, SO_KEEPALIVE},
    [WEIR_SOCKET_KEEPALIVE_IDLE] = {IPPROTO_TCP, TCP_KEEPIDLE},
    [WEIR_SOCKET_KEEPALIVE_INTERVAL] = {IPPROTO_TCP, TCP_KEEPINTVL},
    [WEIR_SOCKET_KEEPALIVE_COUNT] = {IPPROTO_TCP, TCP_KEEPCNT},
    [WEIR_SOCKET_USER_TIMEOUT] = {IPPROTO_TCP, TCP_USER_TIMEOUT},
    [WEIR_SOCKET_RCVBUF] = {SOL_SOCKET, SO_RCVBUF},
    [WEIR_SOCKET_SNDBUF] = {SOL_SOCKET, SO_SNDBUF},
    [WEIR_SOCKET_NOTSENT_LOWAT] = {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    [WEIR_SOCKET_FASTOPEN] = {IPPROTO_TCP, TCP_FASTOPEN},
    [WEIR_SOCKET_BUSY_POLL] = {SOL_SOCKET, SO_BUSY_POLL},
};

struct wish {
    enum weir_socket_option which;
    uint32_t value;
    bool always; /* 0 is a value too */
};

/* These are about the option; anything else would have met another one too. */
static int blame(int rc, enum weir_socket_option which) {
    switch (-rc) {
    case EINVAL:
    case EPERM:
    case EACCES:
    case EDOM:
    case EOPNOTSUPP:
    case ENOPROTOOPT: return WEIR_ESOCKOPT((int)which);
    default: return rc;
    }
}

static int grant(int fd, const struct wish *w, bool listener) {
    struct kernel_option k = kernel_options[w->which];
    uint32_t value = w->value < INT_MAX ? w->value : INT_MAX;
    if (w->which == WEIR_SOCKET_FASTOPEN && !listener) {
        k.name = TCP_FASTOPEN_CONNECT;
        value = 1;
    }
    return blame(set_int(fd, k.level, k.name, (int)value), w->which);
}

static int grant_all(int fd, const struct wish *wishes, size_t n, bool listener) {
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < n; i++)
        if (wishes[i].always || wishes[i].value)
            rc = grant(fd, &wishes[i], listener);
    return rc;
}

static uint32_t or_default(uint32_t asked, uint32_t otherwise) {
    return asked ? asked : otherwise;
}

int weir__os_sock_apply(int fd, const struct weir_socket_options *o, bool listener) {
    static const struct weir_socket_options none;
    o = o ? o : &none;
    const struct wish buffers[] = {
        {WEIR_SOCKET_RCVBUF, o->rcvbuf_bytes, false},
        {WEIR_SOCKET_SNDBUF, o->sndbuf_bytes, false},
    };
    const struct wish streams[] = {
        {WEIR_SOCKET_USER_TIMEOUT, o->user_timeout_ms, false},
        {WEIR_SOCKET_NOTSENT_LOWAT, o->notsent_lowat_bytes, false},
        {WEIR_SOCKET_FASTOPEN, o->fastopen_max, false},
        {WEIR_SOCKET_BUSY_POLL, o->busy_poll_us, false},
    };
    const struct wish probes[] = {
        {WEIR_SOCKET_KEEPALIVE_IDLE, or_default(o->keepalive_idle_s, KEEPALIVE_IDLE_S), true},
        {WEIR_SOCKET_KEEPALIVE_INTERVAL, or_default(o->keepalive_interval_s, KEEPALIVE_INTERVAL_S),
         true},
        {WEIR_SOCKET_KEEPALIVE_COUNT, or_default(o->keepalive_count, KEEPALIVE_COUNT), true},
        {WEIR_SOCKET_KEEPALIVE, 1, true},
    };
    int rc = grant_all(fd, buffers, 2, listener);
    if (rc < 0)
        return rc;
    rc = weir__os_set_nodelay(fd, !o->nagle);
    if (rc == -EOPNOTSUPP || rc == -ENOPROTOOPT)
        return 0; /* not TCP, found out without a call of its own */
    if (rc < 0)
        return blame(rc, WEIR_SOCKET_NODELAY);
    rc = grant_all(fd, streams, 4, listener);
    return rc < 0 || o->no_keepalive ? rc : grant_all(fd, probes, 4, listener);
}

int weir__os_sock_effective(int fd, bool listener, struct weir_socket_options *out) {
    int got[WEIR_SOCKET_BUSY_POLL + 1] = {0};
    for (unsigned i = WEIR_SOCKET_NODELAY; i <= WEIR_SOCKET_BUSY_POLL; i++) {
        bool client = i == WEIR_SOCKET_FASTOPEN && !listener;
        int rc = get_int(fd, kernel_options[i].level,
                         client ? TCP_FASTOPEN_CONNECT : kernel_options[i].name, &got[i]);
        if (rc < 0)
            return rc;
    }
    *out = (struct weir_socket_options){
        .nagle = !got[WEIR_SOCKET_NODELAY],
        .no_keepalive = !got[WEIR_SOCKET_KEEPALIVE],
        .keepalive_idle_s = (uint32_t)got[WEIR_SOCKET_KEEPALIVE_IDLE],
        .keepalive_interval_s = (uint32_t)got[WEIR_SOCKET_KEEPALIVE_INTERVAL],
        .keepalive_count = (uint32_t)got[WEIR_SOCKET_KEEPALIVE_COUNT],
        .user_timeout_ms = (uint32_t)got[WEIR_SOCKET_USER_TIMEOUT],
        .rcvbuf_bytes = (uint32_t)got[WEIR_SOCKET_RCVBUF] / 2,
        .sndbuf_bytes = (uint32_t)got[WEIR_SOCKET_SNDBUF] / 2,
        .notsent_lowat_bytes = (uint32_t)got[WEIR_SOCKET_NOTSENT_LOWAT],
        .fastopen_max = (uint32_t)got[WEIR_SOCKET_FASTOPEN],
        .busy_poll_us = (uint32_t)got[WEIR_SOCKET_BUSY_POLL],
    };
    return 0;
}

/* --- steering -------------------------------------------------------------------------------- */

enum { STEER_HEAD = 1, STEER_TAIL = 2 };

static struct sock_filter step(unsigned code, unsigned miss, uint32_t k) {
    return (struct sock_filter){.code = (uint16_t)code, .jf = (uint8_t)miss, .k = k};
}

/* The CPU is looked up among those of the sockets; one that is none of them is spread by number. */
int weir__os_sock_steer(int fd, const unsigned *cpus, unsigned n) {
    struct sock_filter code[STEER_HEAD + 2 * WEIR__OS_STEER_MAX + STEER_TAIL];
    unsigned at = 0;
    if (n == 0 || n > WEIR__OS_STEER_MAX)
        return -EINVAL;
    code[at++] = step(BPF_LD | BPF_W | BPF_ABS, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_CPU));
    for (unsigned i = 0; i < n; i++) {
        code[at++] = step(BPF_JMP | BPF_JEQ | BPF_K, 1, cpus[i]);
        code[at++] = step(BPF_RET | BPF_K, 0, i);
    }
    code[at++] = step(BPF_ALU | BPF_MOD | BPF_K, 0, n);
    code[at++] = step(BPF_RET | BPF_A, 0, 0);
    struct sock_fprog program = {.len = (unsigned short)at, .filter = code};
    return set(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}
