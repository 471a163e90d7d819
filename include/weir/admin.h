/* The admin address of a group: its numbers, its health, who holds a loop, where the time goes and
 * what is wrong, over HTTP. docs/admin.md shows every page.
 *
 * It runs on a loop and a thread of its own and only reads what the watched loops publish, so that
 * it answers while all of them are stuck. It is no loop of the group. */
#ifndef WEIR_ADMIN_H
#define WEIR_ADMIN_H
#include "weir/error.h"
#include "weir/loop.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_admin;

/* Opens it on address ("127.0.0.1:9900", ":0", "unix:/path") and starts its thread. Whoever reaches
 * the address can read everything on it: keep it on the loopback or behind a firewall. It belongs
 * to the group and answers until every watched loop has ended. Any thread but a loop's. EINVAL
 * (weir_server_why of the watched group says what), EINUSE, ENOTSUP (a simulated group), ENOMEM,
 * EFDS, ESYS. */
int weir_admin_serve(struct weir_group *watched, const char *address, struct weir_admin **out);
/* The address it listens on, with the port the kernel chose. Lives as long as the admin. */
const char *weir_admin_address(const struct weir_admin *a);
/* Shows a setting on /stats: its name, its value, and where that came from ("default", "flag");
 * copied. Any thread but a loop's. EINVAL: a name over 31 bytes, a value over 95, an origin over
 * 15, or an empty name or origin; EFULL: 64 are there. */
int weir_admin_parameter(struct weir_admin *a, const char *name, const char *value,
                         const char *origin);

#ifdef __cplusplus
}
#endif
#endif
