/* The PROXY protocol, versions 1 and 2 (HAProxy's doc/proxy-protocol.txt, 2020/03/05): a load
 * balancer in front says, as the first bytes of a connection, on whose behalf it connects.
 *
 * A codec over plain bytes, and a handler that goes first in a server's pipeline. Whoever may send
 * a header may claim any address: put the handler on listeners that only the balancers reach, or
 * say who they are (`trusted`). */
#ifndef WEIR_PROXY_H
#define WEIR_PROXY_H
#include "weir/chan.h"
#include "weir/error.h"
#include "weir/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum weir_proxy_limit {
    WEIR_PROXY_V1_MAX = 107,            /* bytes of a version 1 line, by the specification */
    WEIR_PROXY_HEADER_BYTES = 4096,     /* default limit of a whole header */
    WEIR_PROXY_HEADER_MAX = 16 + 65535, /* what version 2 can say */
    WEIR_PROXY_ID_MAX = 128,            /* bytes of a unique id */
};

enum weir_proxy_command {
    WEIR_PROXY_LOCAL, /* the sender's own connection, a health check: the ends are the socket's */
    WEIR_PROXY_PROXY, /* on behalf of `from`, who wanted `to` */
};

enum weir_proxy_family { WEIR_PROXY_UNSPEC, WEIR_PROXY_IP4, WEIR_PROXY_IP6, WEIR_PROXY_UNIX };

enum weir_proxy_transport { WEIR_PROXY_ANY, WEIR_PROXY_STREAM, WEIR_PROXY_DGRAM };

/* Of a TLV. */
enum weir_proxy_type {
    WEIR_PROXY_ALPN = 0x01,
    WEIR_PROXY_AUTHORITY = 0x02, /* the host name the client asked for */
    WEIR_PROXY_CRC32C = 0x03,    /* checked by the decoder */
    WEIR_PROXY_NOOP = 0x04,
    WEIR_PROXY_UNIQUE_ID = 0x05,
    WEIR_PROXY_SSL = 0x20, /* u8 client bits, u32 verify, then TLVs, which the decoder has walked */
    WEIR_PROXY_SSL_VERSION = 0x21,
    WEIR_PROXY_SSL_CN = 0x22,
    WEIR_PROXY_SSL_CIPHER = 0x23,
    WEIR_PROXY_SSL_SIG_ALG = 0x24,
    WEIR_PROXY_SSL_KEY_ALG = 0x25,
    WEIR_PROXY_NETNS = 0x30,
};

struct weir_proxy_end {
    uint16_t port;      /* IP4, IP6 */
    uint8_t bytes[108]; /* IP4: 4; IP6: 16, network order; UNIX: sun_path, filled with zeros */
};

struct weir_proxy_header {
    uint8_t version;   /* 1 or 2 */
    uint8_t command;   /* enum weir_proxy_command; version 1 UNKNOWN is PROXY and UNSPEC */
    uint8_t family;    /* enum weir_proxy_family; UNSPEC: the ends are not known, and zero */
    uint8_t transport; /* enum weir_proxy_transport */
    bool checksum;     /* it had a CRC32C, which was right; encoding: put one in */
    struct weir_proxy_end from, to;
    struct weir_str tlvs; /* version 2: the block of TLVs, walked with weir_proxy_next. Untrusted
                             bytes, borrowed from what was decoded */
};

struct weir_proxy_tlv {
    uint8_t type;
    struct weir_str value;
};

/* Reads the header that p begins with. > 0: its bytes, and *out is it; out->tlvs points into p. 0:
 * not all there; *need (may be NULL) is the least number of bytes to come back with. EPROTO: no
 * header, or one that breaks a rule; known as soon as the bytes that break it are there. ETOOBIG:
 * version 2 announces more than max bytes (0: WEIR_PROXY_HEADER_BYTES). What LOCAL and UNSPEC bring
 * beside their command is dropped unread. Any thread. */
int weir_proxy_decode(const void *p, size_t n, size_t max, struct weir_proxy_header *out,
                      size_t *need);
/* Takes the next TLV off the front of rest (a header's tlvs, or an SSL value behind its 5 bytes).
 * 1: *out is it; 0: the end; EPROTO: rest is no TLV (never in what a decoder gave). */
int weir_proxy_next(struct weir_str *rest, struct weir_proxy_tlv *out);
/* The first TLV of this type. false: there is none. */
bool weir_proxy_find(const struct weir_proxy_header *h, uint8_t type, struct weir_str *out);

/* Writes a header of h->version with these TLVs (h->tlvs is not looked at) to out. Its bytes;
 * ETOOBIG: over cap, or over what the format can say; EINVAL: an unknown version, command, family
 * or transport, TLVs or checksum where there are no ends or in version 1, a CRC32C among the TLVs,
 * or a unique id over its limit. What version
 * 1 has no word for becomes UNKNOWN. Any thread. */
int weir_proxy_encode(const struct weir_proxy_header *h, const struct weir_proxy_tlv *tlvs,
                      unsigned n_tlvs, void *out, size_t cap);

/* ---- as a handler ---- */

struct weir_proxy_net { /* "10.0.0.0/8", "::1", "unix" (any unix socket), parsed */
    uint8_t family, bits, ip[16];
};

/* Parses one of the forms above; without /n it is one address. IPv4 also matches the same address
 * mapped into IPv6. EINVAL: *why (may be NULL) is a static sentence. Any thread. */
int weir_proxy_net_parse(const char *text, struct weir_proxy_net *out, const char **why);

/* Config of weir_proxy_handler; outlives the server. NULL: defaults. */
struct weir_proxy_options {
    size_t size;
    uint32_t header_ms;  /* the header must be there after this: 5000 */
    uint32_t header_max; /* bytes of a header: WEIR_PROXY_HEADER_BYTES; at most
                            WEIR_PROXY_HEADER_MAX */
    /* Who may connect at all; everybody else is reset unheard. None: whoever reaches the listener
     * is believed. */
    const struct weir_proxy_net *trusted;
    unsigned n_trusted;
    /* A connection may begin without a header: what cannot be one is the application's, and one
     * that stays silent for header_ms is taken as such. The specification forbids to guess, because
     * then every client can claim any address; so it needs `trusted`, and is for the time in which
     * balancers are switched over. */
    bool optional;
    /* The connection is refused, and about to be reset: EPROTO, ETOOBIG, ETIMEDOUT (no header in
     * time), ECANCELLED (not trusted), ENOMEM. For logs; may be NULL. Loop. */
    void (*refused)(struct weir_chan *ch, int why, void *user);
    void *user;
};

struct weir_proxy_stats {    /* what became of a loop's connections with the handler; cumulative */
    uint64_t headers;        /* a header came, and the application was opened */
    uint64_t without;        /* optional: opened without one */
    uint64_t silent;         /* ended in order without a byte: health checks, port scans */
    uint64_t refused_trust;  /* refused: the peer is not trusted */
    uint64_t refused_header; /* refused: no header, or one that breaks a rule or ends inside */
    uint64_t refused_size;   /* refused: it announced more than header_max */
    uint64_t refused_time;   /* refused: not there after header_ms */
    uint64_t refused_memory; /* refused: no memory for it */
};

/* Fills out with the counts of l since it began. ENOMEM: out is all zeros. Loop. */
int weir_proxy_stats(struct weir_loop *l, struct weir_proxy_stats *out);

/* First in a pipeline. The handlers behind it are opened when the header has been read, so that
 * weir_chan_peer and weir_chan_local tell them the client's ends from the start; then it takes
 * itself out. Until then it alone sees bytes. Opening fails with EINVAL for options that break a
 * rule above, and with ENOMEM. */
extern const struct weir_handler weir_proxy_handler;

/* The header this channel began with, or NULL. Lives as long as the channel. Loop. */
const struct weir_proxy_header *weir_proxy_header_of(const struct weir_chan *ch);

#ifdef __cplusplus
}
#endif
#endif
