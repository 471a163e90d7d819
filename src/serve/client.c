#include "base/addr.h"
#include "chan/chan.h"

enum { CONNECT_MS = 10000 };

int weir_connect(struct weir_loop *l, const struct weir_client_options *o,
                 void (*fn)(struct weir_chan *ch, int status, void *user), void *user) {
    struct weir__chan_plan *plan;
    struct weir_addr to;
    if (!o || o->size != sizeof *o || !o->address || !fn)
        return WEIR_EINVAL;
    if (l->phase != WEIR__LOOP_RUNNING)
        return WEIR_ESTOPPED;
    int rc = weir__base_addr_parse(o->address, &to, NULL);
    if (rc < 0)
        return rc;
    struct weir_limits limits = o->limits;
    limits.read_while_full = !o->stop_while_full;
    rc = weir__chan_plan_new(l, o->stages, o->n_stages, &limits, &plan);
    if (rc < 0)
        return rc;
    rc = weir__chan_connect(plan, &to, o->connect_ms ? o->connect_ms : CONNECT_MS, &o->socket, fn,
                            user);
    weir__chan_plan_release(plan); /* the channel holds its own reference */
    return rc;
}
