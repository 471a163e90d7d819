#include "cli/sockets.h"
#include "weir/host.h"
#include <inttypes.h>
#include <string.h>

int sockets_bdp(const char *text, const char *program, uint64_t *bytes) {
    if (!cli_bdp(text, bytes))
        return cli_complain(program,
                            "--bdp: \"%s\" is no rate and round trip; try 10Gbit,50ms (bit to "
                            "Tbit; us, ms, s)",
                            text);
    if (*bytes > SOCKETS_BYTES_MAX)
        return cli_complain(program,
                            "--bdp: %s is %" PRIu64 " bytes in flight; one socket holds %d at most",
                            text, *bytes, SOCKETS_BYTES_MAX);
    return 0;
}

/* "60,15,4": each from 1 to the kernel's limit. */
static bool keepalive_of(const char *text, struct weir_socket_options *out) {
    static const uint64_t max[3] = {32767, 32767, 127};
    uint32_t *const to[3] = {&out->keepalive_idle_s, &out->keepalive_interval_s,
                             &out->keepalive_count};
    char part[16];
    for (unsigned i = 0; i < 3; i++) {
        uint64_t n;
        size_t length = strcspn(text, ",");
        if (length >= sizeof part || (text[length] == ',') != (i < 2))
            return false;
        memcpy(part, text, length);
        part[length] = 0;
        if (!cli_count(part, &n) || n < 1 || n > max[i])
            return false;
        *to[i] = (uint32_t)n;
        text += length + (i < 2);
    }
    return true;
}

int sockets_read(const struct sockets *s, const char *program, struct weir_socket_options *out) {
    uint64_t bdp = 0;
    if (s->bdp && sockets_bdp(s->bdp, program, &bdp))
        return 2;
    *out = (struct weir_socket_options){
        .nagle = s->nagle,
        .user_timeout_ms = (uint32_t)s->user_timeout_ms,
        .rcvbuf_bytes = (uint32_t)(s->rcvbuf_bytes ? s->rcvbuf_bytes : bdp),
        .sndbuf_bytes = (uint32_t)(s->sndbuf_bytes ? s->sndbuf_bytes : bdp),
        .notsent_lowat_bytes = (uint32_t)s->notsent_lowat_bytes,
        .fastopen_max = (uint32_t)s->fastopen,
        .busy_poll_us = (uint32_t)s->busy_poll_us,
    };
    if (!s->keepalive)
        return 0;
    out->no_keepalive = !strcmp(s->keepalive, "off");
    if (!out->no_keepalive && !keepalive_of(s->keepalive, out))
        return cli_complain(program,
                            "--keepalive: \"%s\" is neither IDLE,INTERVAL,COUNT (seconds to "
                            "32767, probes to 127) nor off; try 60,15,4",
                            s->keepalive);
    return 0;
}

static void cut(const char *program, const char *what, uint32_t asked, uint32_t got,
                const char *limit) {
    if (got < asked)
        cli_complain(program,
                     "%s: of %u bytes the kernel grants %u; sysctl -w %s=%u allows the rest", what,
                     asked, got, limit, asked);
}

int sockets_try(const char *program, const struct weir_socket_options *o, bool listener) {
    struct weir_socket_options got;
    int rc = weir_host_socket(o, listener, &got);
    if (rc < 0)
        return cli_complain(program, "socket options: %s", weir_strerror(rc));
    cut(program, "receive buffer", o->rcvbuf_bytes, got.rcvbuf_bytes, "net.core.rmem_max");
    cut(program, "send buffer", o->sndbuf_bytes, got.sndbuf_bytes, "net.core.wmem_max");
    return 0;
}
