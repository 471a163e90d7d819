#include "weir/error.h"
#include "base/compiler.h"
#include "weir/socket.h"
#include <string.h>

struct word {
    int code;
    const char *name, *text;
};

static const struct word words[] = {
    {0, "OK", "success"},
    {WEIR_EGONE, "EGONE", "the channel, call or object behind this ref has ended: drop the ref"},
    {WEIR_EFULL, "EFULL",
     "a configured limit is reached (held_max, a queue or a table): wait for room or raise it"},
    {WEIR_ENOMEM, "ENOMEM",
     "no memory, or the memory_max budget of this loop is used up: raise memory_max or shed load"},
    {WEIR_ESTOPPED, "ESTOPPED", "the loop or group has stopped: this will never run"},
    {WEIR_EINVAL, "EINVAL", "an argument is outside what the function documents"},
    {WEIR_EINUSE, "EINUSE",
     "somebody else listens on that address: choose another, or set join to share it"},
    {WEIR_ENOTSUP, "ENOTSUP", "this machine or build does not have that feature"},
    {WEIR_EAGAIN, "EAGAIN", "not possible right now: an event will say when"},
    {WEIR_EFDS, "EFDS",
     "out of file descriptors (RLIMIT_NOFILE of the process, or the system): raise ulimit -n"},
    {WEIR_EPROTO, "EPROTO", "the peer broke the protocol; the connection is closed"},
    {WEIR_ETOOBIG, "ETOOBIG",
     "a message is over its configured size limit: raise the limit or send less"},
    {WEIR_ERESET, "ERESET", "the peer reset the connection"},
    {WEIR_ETIMEDOUT, "ETIMEDOUT", "the peer did not answer before its deadline"},
    {WEIR_EREFUSED, "EREFUSED", "connection refused: nobody listens on that address"},
    {WEIR_EUNREACH, "EUNREACH", "no route to that address"},
    {WEIR_ECANCELLED, "ECANCELLED", "cancelled or aborted by this side"},
    {WEIR_ETRUNCATED, "ETRUNCATED", "the stream or file ended before its promised length"},
    {WEIR_EIO, "EIO", "the kernel reported an input/output error, or would not say which"},
    {WEIR_EIDLE, "EIDLE", "closed: idle for longer than idle_ms"},
    {WEIR_ECALL, "ECALL", "the peer answered this call with an error"},
    {WEIR_EDEADLINE, "EDEADLINE", "the deadline of this call passed; the connection lives on"},
    {WEIR_EBUG, "EBUG", "a promise inside the library or by its user was broken: please report it"},
};

/* Which option, and which limit it may have met. */
static const char *const options[] = {
    [WEIR_SOCKET_NODELAY] = "the kernel refused TCP_NODELAY",
    [WEIR_SOCKET_KEEPALIVE] = "the kernel refused SO_KEEPALIVE",
    [WEIR_SOCKET_KEEPALIVE_IDLE] =
        "the kernel refused TCP_KEEPIDLE (keepalive_idle_s is 1 to 32767)",
    [WEIR_SOCKET_KEEPALIVE_INTERVAL] =
        "the kernel refused TCP_KEEPINTVL (keepalive_interval_s is 1 to 32767)",
    [WEIR_SOCKET_KEEPALIVE_COUNT] = "the kernel refused TCP_KEEPCNT (keepalive_count is 1 to 127)",
    [WEIR_SOCKET_USER_TIMEOUT] =
        "the kernel refused TCP_USER_TIMEOUT (user_timeout_ms is below 2^31)",
    [WEIR_SOCKET_RCVBUF] = "the kernel refused SO_RCVBUF (see net.core.rmem_max)",
    [WEIR_SOCKET_SNDBUF] = "the kernel refused SO_SNDBUF (see net.core.wmem_max)",
    [WEIR_SOCKET_NOTSENT_LOWAT] = "the kernel refused TCP_NOTSENT_LOWAT",
    [WEIR_SOCKET_FASTOPEN] =
        "the kernel refused TCP Fast Open (see net.ipv4.tcp_fastopen: 1 client, 2 server)",
    [WEIR_SOCKET_BUSY_POLL] =
        "the kernel refused SO_BUSY_POLL (more than net.core.busy_read needs CAP_NET_ADMIN)",
};

static const char *option_text(int code) {
    unsigned n = (unsigned)(WEIR_ESOCKOPT(0) - code);
    return n < ARRAY_LEN(options) ? options[n] : NULL;
}

static const struct word *find(int code) {
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words[i].code == code)
            return &words[i];
    return NULL;
}

const char *weir_strerror(int code) {
    if (code > 0)
        return words[0].text;
    const struct word *w = find(code);
    if (w)
        return w->text;
    const char *system = code <= WEIR_ESOCKOPT(0) ? option_text(code)
                         : code <= WEIR_ESYS(0)   ? strerrordesc_np(WEIR_ESYS(0) - code)
                                                  : NULL;
    return system ? system : "unknown error code";
}

const char *weir_errname(int code) {
    if (code > 0)
        return words[0].name;
    const struct word *w = find(code);
    if (w)
        return w->name;
    if (code < WEIR_ESOCKOPT(0) && option_text(code))
        return "ESOCKOPT";
    const char *system = code < WEIR_ESYS(0) ? strerrorname_np(WEIR_ESYS(0) - code) : NULL;
    return system ? system : "E?";
}

enum weir_severity weir_severity(int code) {
    if (code >= 0)
        return WEIR_SEV_OK;
    if (code > -200)
        return WEIR_SEV_REFUSED;
    if (code > -300)
        return WEIR_SEV_CONNECTION;
    if (code > -400)
        return WEIR_SEV_CALL;
    return code > WEIR_ESYS(0) ? WEIR_SEV_BUG : WEIR_SEV_SYSTEM;
}
