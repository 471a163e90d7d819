/* The service digest: d(0) = 32 zero bytes, d(i) = SHA-256(d(i-1) followed by the payload); the
 * last one is the answer. Each round starts from the one before, so that the work cannot be done
 * once and reused. */
#ifndef APPS_LINKD_DIGEST_H
#define APPS_LINKD_DIGEST_H
#include "weir/linkd.h"

struct digest;

/* One hash state per loop of g, before g starts. order is for digest_offloaded. NULL: no memory, or
 * OpenSSL has no SHA-256. */
struct digest *digest_new(struct weir_group *g, unsigned rounds, enum weir_order order);
/* After g has ended. */
void digest_free(struct digest *d);

/* On the loop, and on workers. user: a struct digest. */
extern const struct weir_linkd_service digest_service, digest_offloaded;

#endif
