/* A socket address as a plain value: "127.0.0.1:80", "[::1]:80", ":80" or "*:80" (every IPv4
 * address), "localhost:80" (127.0.0.1), "unix:/path", "unix:@name" (abstract). Names are resolved
 * elsewhere. */
#ifndef WEIR_BASE_ADDR_H
#define WEIR_BASE_ADDR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weir__base_addr_kind { WEIR__ADDR_NONE, WEIR__ADDR_IP4, WEIR__ADDR_IP6, WEIR__ADDR_UNIX };

enum { WEIR__ADDR_PATH_MAX = 107, WEIR__ADDR_TEXT_MAX = 128 };

struct weir_addr {    /* {0} = no address */
    uint8_t kind;     /* enum weir__base_addr_kind */
    uint8_t path_len; /* unix: bytes of path; an abstract name starts with a zero byte */
    uint16_t port;    /* host order */
    uint32_t scope;   /* IPv6 link-local: interface index */
    union {
        uint8_t ip4[4];
        uint8_t ip6[16];
        char path[WEIR__ADDR_PATH_MAX + 1];
    };
};

/* 0, or EINVAL with *why (when not NULL) a static sentence; out is zeroed on failure. */
int weir__base_addr_parse(const char *text, struct weir_addr *out, const char **why);

/* Writes the text form (parse reads it back) and a terminator, cut to cap; returns its length. */
size_t weir__base_addr_format(const struct weir_addr *a, char *buf, size_t cap);

bool weir__base_addr_equal(const struct weir_addr *a, const struct weir_addr *b);

#endif
