/* Framing on a channel: cuts frames off the input for as long as the output has room. */
#include "base/compiler.h"
#include "weir/chan.h"
#include "weir/frame.h"

struct conn {
    const struct weir_frame_service *service;
    struct weir_frame_decoder decoder;
};

static int frame_open(struct weir_ctx *c, const void *config) {
    struct conn *n = weir_ctx_state(c);
    const struct weir_frame_service *v = config;
    if (!v || !v->format || !v->frame)
        return WEIR_EINVAL;
    n->service = v;
    return 0;
}

static int hand_up(struct weir_ctx *c, struct conn *n, struct weir_chain *frame) {
    int rc = n->service->frame(c, frame, n->service->user);
    weir_chain_fini(frame);
    return rc;
}

static int frame_read(struct weir_ctx *c, struct weir_chain *in) {
    struct conn *n = weir_ctx_state(c);
    struct weir_chain frame = {0};
    weir_ctx_want(c, 1);
    while (weir_ctx_room(c) > 0) {
        int rc = weir_frame_next(n->service->format, &n->decoder, weir_ctx_mem(c), in, &frame);
        if (rc == 0) {
            weir_ctx_want(c, n->decoder.need);
            return 0;
        }
        if (rc > 0)
            rc = hand_up(c, n, &frame);
        if (rc < 0)
            return rc;
    }
    return 0; /* what is left waits for room */
}

static void frame_eof(struct weir_ctx *c, bool clean) {
    const struct weir_frame_service *v = ((struct conn *)weir_ctx_state(c))->service;
    if (v->eof)
        v->eof(c, clean, v->user);
}

/* References on everything in c: what is framed can then be thrown away when the channel refuses
 * it. */
static int refer(struct weir_mem *m, const struct weir_chain *c, struct weir_chain *out) {
    for (const struct weir_part *p = c->first; p; p = p->next) {
        if (p->file) {
            int rc = weir_chain_add_file(m, out, p->file, p->file_off, p->slice.n);
            if (rc < 0)
                return rc;
            continue;
        }
        struct weir_slice s = weir_slice_ref(p->slice, 0, p->slice.n);
        int rc = weir_chain_add(m, out, &s);
        if (rc < 0) {
            weir_slice_release(&s);
            return rc;
        }
    }
    return 0;
}

int weir_frame_send(struct weir_ctx *c, struct weir_chain *payload) {
    const struct conn *n = weir_ctx_state(c);
    struct weir_mem *m = weir_ctx_mem(c);
    struct weir_chain copy = {0}, out = {0};
    int rc = refer(m, payload, &copy);
    if (rc >= 0)
        rc = weir_frame_write(n->service->format, m, &copy, &out);
    if (rc >= 0)
        rc = weir_ctx_send(c, &out);
    weir_chain_fini(&copy);
    weir_chain_fini(&out);
    if (rc >= 0)
        weir_chain_fini(payload);
    return rc;
}

const struct weir_handler weir_frame_handler = {
    .name = "frame",
    .state_size = sizeof(struct conn),
    .open = frame_open,
    .read = frame_read,
    .eof = frame_eof,
};
