/* One end of a connection against a peer that sends anything: valid frames, frames with one wrong
 * field, raw bytes, in any pieces, while the owner answers, fails, writes, takes and cancels as the
 * plan says. */
#include "fuzz/linkd_host.h"
#include "mem/pool.h"

static struct fuzz_plan *now_plan;

static int any_call(struct weir_linkd_call *x, void *user) {
    (void)user;
    static const int results[] = {0, 0, 0, WEIR_EINVAL, WEIR_ENOMEM, WEIR_EIO};
    if (fuzz_one_in(now_plan, 3))
        return weir_linkd_answer(x, weir_linkd_payload(x));
    if (fuzz_one_in(now_plan, 8))
        weir_linkd_cancel(x);
    return results[fuzz_below(now_plan, 6)];
}

static int any_body(struct weir_linkd_call *x, struct weir_chain *in, bool last) {
    (void)last;
    weir_chain_drop(in, in->bytes / (1 + fuzz_below(now_plan, 3)));
    if (fuzz_one_in(now_plan, 4))
        weir_linkd_resume(x);
    return fuzz_one_in(now_plan, 40) ? WEIR_EPROTO : 0;
}

static void any_room(struct weir_linkd_call *x, uint64_t room) {
    struct weir_chain c = fuzz_chain(weir_linkd_mem(x), 1, 0, (size_t)room / 2);
    if (fuzz_one_in(now_plan, 4))
        weir_linkd_end(x);
    else
        weir_linkd_write(x, &c);
    weir_chain_fini(&c);
}

static void any_reply(const struct weir_linkd_reply *r, void *user) {
    (void)user;
    must(r->text.p && r->payload);
    if (!r->last)
        weir_chain_drop(r->payload, r->payload->bytes / (1 + fuzz_below(now_plan, 3)));
    if (!r->last && fuzz_one_in(now_plan, 20))
        weir_linkd_cancel(r->call);
}

static const struct weir_linkd_service whole = {
    .name = "whole", .state_size = 8, .call = any_call, .room = any_room};
static const struct weir_linkd_service pieces = {
    .name = "pieces", .call = any_call, .body = any_body, .room = any_room};
static const struct weir_linkd_route routes[] = {{0, &whole, NULL}, {1, &pieces, NULL}};
static const struct weir_linkd_server_options server = {.size = sizeof server,
                                                        .routes = routes,
                                                        .n_routes = 2,
                                                        .frame_max = 2000,
                                                        .message_max = 3000,
                                                        .held_max = 6000,
                                                        .calls_max = 8,
                                                        .stage_max = 1000};
static const struct weir_linkd_client_options client = {.size = sizeof client,
                                                        .frame_max = 2000,
                                                        .message_max = 3000,
                                                        .held_max = 6000,
                                                        .calls_max = 8,
                                                        .stage_max = 1000};

static void arrive(struct fuzz_plan *f, struct fuzz_end *e, struct weir_mem *m) {
    uint8_t b[WEIR_LINKD_HEAD_BYTES + 600];
    struct weir__linkd_head h = {.type = (uint8_t)(1 + fuzz_below(f, 8)),
                                 .flags = (uint16_t)fuzz_below(f, 4),
                                 .service = (uint16_t)fuzz_below(f, 3),
                                 .id = fuzz_below(f, 12),
                                 .length = fuzz_below(f, 600)};
    h.flags &= fuzz_one_in(f, 60) ? 0xffff : weir__linkd_flags_of(h.type);
    if (h.type >= WEIR_LINKD_PING && h.type != WEIR_LINKD_CANCEL)
        h.length = h.type == WEIR_LINKD_CREDIT ? 4 : h.length % 64;
    if ((h.type == WEIR_LINKD_PING || h.type == WEIR_LINKD_PONG || h.type == WEIR_LINKD_GOAWAY) &&
        !fuzz_one_in(f, 60))
        h.id = 0;
    size_t n = WEIR_LINKD_HEAD_BYTES + h.length;
    if (fuzz_one_in(f, 40))
        h.length = fuzz_take(f, 4) % (WEIR_LINKD_FRAME_MAX + 1000);
    weir__linkd_put_head(b, &h);
    if (fuzz_one_in(f, 60))
        b[fuzz_below(f, 8)] = (uint8_t)fuzz_take(f, 1);
    memset(b + WEIR_LINKD_HEAD_BYTES, (int)fuzz_below(f, 2), n - WEIR_LINKD_HEAD_BYTES);
    for (size_t at = 0, cut; at < n; at += cut) {
        cut = 1 + (fuzz_one_in(f, 2) ? fuzz_below(f, 30) : n);
        cut = cut < n - at ? cut : n - at;
        if (weir_chain_write(m, &e->in, b + at, cut) == 0)
            weir__linkd_read(&e->s, &e->in, 1 + fuzz_take(f, 1) * 100);
    }
}

static void act(struct fuzz_plan *f, struct fuzz_end *e, struct weir_mem *m) {
    struct weir_linkd_call *x = fuzz_any(f, e);
    struct weir_chain c = {0};
    switch (fuzz_below(f, 9)) {
    case 0: weir__linkd_expire(&e->s, e->now_ns += fuzz_below(f, 100) * 100000u); break;
    case 1: weir__linkd_pull(&e->s, fuzz_take(f, 2)); break;
    case 2: weir_chain_fini(&e->s.out); break;
    case 3:
        if (!e->s.line->server) {
            struct weir_linkd_request o = {.size = sizeof o,
                                           .more = fuzz_one_in(f, 2),
                                           .stream = fuzz_one_in(f, 2),
                                           .room = any_room,
                                           .deadline_ms = fuzz_below(f, 3)};
            c = fuzz_chain(m, 1, 0, fuzz_below(f, 2500));
            weir_linkd_start(&e->k, &o, &c, NULL, any_reply, NULL);
        }
        break;
    case 4:
        c = fuzz_chain(m, 1, 0, fuzz_below(f, 2500));
        if (x)
            weir_linkd_write(x, &c);
        break;
    case 5:
        c = fuzz_chain(m, 1, 0, fuzz_below(f, 2500));
        if (x)
            weir_linkd_answer(x, &c);
        break;
    case 6:
        if (x)
            weir_linkd_fail(x, fuzz_below(f, 10), NULL);
        break;
    case 7:
        if (x) {
            weir_chain_drop(weir_linkd_payload(x), weir_linkd_payload(x)->bytes / 2);
            weir_linkd_resume(x);
        }
        break;
    default:
        if (fuzz_one_in(f, 20))
            weir__linkd_goaway(&e->s);
        else if (fuzz_one_in(f, 10))
            weir__mem_fail(m, 1 + fuzz_below(f, 10), false);
    }
    weir_chain_fini(&c);
    weir__linkd_invariants(&e->s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct fuzz_plan f = {data, n};
    struct weir_mem *m = weir_mem_open("fuzz");
    struct fuzz_end e = {.now_ns = 1};
    now_plan = &f;
    if (fuzz_one_in(&f, 2))
        fuzz_open_server(&e, &server, m, 1);
    else
        fuzz_open_client(&e, &client, m, 1);
    while (f.n) {
        if (fuzz_one_in(&f, 2))
            arrive(&f, &e, m);
        else
            act(&f, &e, m);
        if (e.s.why) /* the host would close: nothing may come of going on */
            must(weir__linkd_read(&e.s, &e.in, 1) == e.s.why);
    }
    weir__mem_fail(m, 0, false);
    fuzz_close(&e);
    must(weir_mem_live(m) == 0);
    weir_mem_close(m);
    return 0;
}
