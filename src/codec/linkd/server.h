/* What a request meets first, on the direct way (direct.h) as on the general one (server.c). */
#ifndef WEIR_CODEC_LINKD_SERVER_H
#define WEIR_CODEC_LINKD_SERVER_H
#include "codec/linkd/session.h"

/* NULL: no such service. */
WEIR_INLINE const struct weir_linkd_route *weir__linkd_route(
    const struct weir_linkd_server_options *o, uint16_t service) {
    const struct weir_linkd_route *r = o->routes;
    for (unsigned n = o->n_routes; n > 0; n--, r++)
        if (r->service == service)
            return r;
    return o->fallback;
}

/* A call of this service can be taken now. */
WEIR_INLINE bool weir__linkd_room(struct weir__linkd_session *s,
                                  const struct weir_linkd_service *v) {
    return likely(!v->offloads) || !s->line->host->room || s->line->host->room(s);
}

WEIR_INLINE int weir__linkd_run_call(struct weir__linkd_session *s, struct weir_linkd_call *x) {
    const struct weir_linkd_route *r = x->route;
    if (s->line->host->enter)
        s->line->host->enter(s, r->handler->name);
    int rc = r->handler->call(x, r->user);
    if (s->line->host->leave)
        s->line->host->leave(s);
    return rc;
}

#endif
