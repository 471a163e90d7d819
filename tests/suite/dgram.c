/* Datagrams: borders, order, truncation, peers that are not there, endings. */
#include "suite/raw.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KIB = 1024, MANY = WEIR__IO_MESSAGES_MAX };

struct duo {
    struct raw s, c; /* s receives what c sends */
    struct weir__io_message m[MANY];
    struct weir_addr to;
};

static struct duo duo; /* too big for a stack */

static struct duo *bind_both(struct pair *p, bool gro) {
    struct duo *d = &duo;
    *d = (struct duo){0};
    raw_init(&d->s, p, SERVER);
    raw_init(&d->c, p, CLIENT);
    raw_listen(&d->s, (struct weir__io_listen){.handle = -1, .datagram = true, .gro = gro}, NULL);
    raw_listen(&d->c, (struct weir__io_listen){.handle = -1, .datagram = true}, NULL);
    d->to = raw_local(&d->s);
    return d;
}

static void close_both(struct duo *d) {
    struct pair *p = d->s.p;
    for (unsigned i = 0; i < MANY; i++)
        raw_fini(&d->c, &d->m[i].chain);
    raw_close(&d->s);
    raw_close(&d->c);
    pair_close(p);
}

static void arm(struct raw *r, size_t bytes_max) {
    demand(r->p, as(r, r->ops->recv_dgram_arm(r->io, r->sock, bytes_max)) == 0);
}

/* Message i: `bytes` of the pattern from i on. */
static void message(struct duo *d, unsigned i, size_t bytes) {
    d->m[i].to = d->to;
    raw_fill(&d->c, &d->m[i].chain, i, bytes);
}

static int submit(struct duo *d, unsigned from, unsigned n) {
    struct raw *c = &d->c;
    return (int)as(c, c->ops->send_dgram(c->io, c->sock, d->m + from, n));
}

/* Sends them and waits for the end: how many were taken, with *code. */
static unsigned sent(struct duo *d, unsigned from, unsigned n, int *code) {
    struct raw *c = &d->c;
    unsigned before = c->n;
    int rc = submit(d, from, n);
    *code = 0;
    if (rc == 1)
        return n;
    demand(c->p, rc == 0);
    struct weir__io_done *end = raw_is(c, before, WEIR__IO_SENT);
    demand(c->p, end->last && (end->code == 0) == (end->count == n));
    *code = end->code;
    return (unsigned)end->count;
}

/* The k-th completion of s is datagram i with so many bytes. */
static void is_message(struct duo *d, unsigned k, unsigned i, size_t bytes, bool truncated) {
    struct weir_addr from = raw_local(&d->c);
    struct weir__io_done *done = raw_is(&d->s, k, WEIR__IO_DGRAM);
    demand(d->s.p, !done->last && done->code == 0);
    if (done->slice.n != bytes)
        fail_case(d->s.p, "datagram %u has %zu bytes, not %zu", i, done->slice.n, bytes);
    demand(d->s.p, pattern_is(done->slice.p, i, bytes));
    demand(d->s.p, done->truncated == truncated && done->ecn == 0 && done->segment_bytes == 0);
    demand(d->s.p, weir__base_addr_equal(&done->peer, &from));
}

static void in_order_with_borders(struct pair *p) {
    static const size_t sizes[] = {1, 1000, 0, 7, 0, 60000, 1400, 2};
    struct duo *d = bind_both(p, false);
    int code;
    arm(&d->s, 0);
    for (unsigned i = 0; i < 8; i++)
        message(d, i, sizes[i]);
    demand(p, sent(d, 0, 8, &code) == 8 && code == 0);
    for (unsigned i = 0; i < 8; i++)
        is_message(d, i, i, sizes[i], false);
    close_both(d);
}

/* A receiver of unix datagrams may be full: what was not taken is sent later. */
static void sixty_four_in_one_call(struct pair *p) {
    struct duo *d = bind_both(p, false);
    unsigned done = 0;
    arm(&d->s, 2048);
    for (unsigned i = 0; i < MANY; i++)
        message(d, i, 1 + i * 20);
    while (done < MANY) {
        int code;
        done += sent(d, done, MANY - done, &code);
        demand(p, code == 0 || code == WEIR_ENOMEM);
        raw_until(&d->s, done);
    }
    for (unsigned i = 0; i < MANY; i++)
        is_message(d, i, i, 1 + i * 20, false);
    close_both(d);
}

static void longer_than_asked_for(struct pair *p) {
    static const size_t sizes[] = {50, 100, 101, 300, 100};
    struct duo *d = bind_both(p, false);
    int code;
    arm(&d->s, 100);
    for (unsigned i = 0; i < 5; i++)
        message(d, i, sizes[i]);
    demand(p, sent(d, 0, 5, &code) == 5);
    for (unsigned i = 0; i < 5; i++)
        is_message(d, i, i, sizes[i] < 100 ? sizes[i] : 100, sizes[i] > 100);
    close_both(d);
}

static void longer_than_any(struct pair *p) {
    struct duo *d = bind_both(p, false);
    int code;
    arm(&d->s, 0);
    message(d, 0, 10);
    message(d, 1, WEIR__IO_SEND_BYTES_MAX);
    message(d, 2, 30);
    demand(p, sent(d, 0, 3, &code) == 1 && code == WEIR_ETOOBIG);
    demand(p, sent(d, 2, 1, &code) == 1 && code == 0);
    is_message(d, 0, 0, 10, false);
    is_message(d, 1, 2, 30, false);
    close_both(d);
}

static void nobody_there(struct pair *p) {
    struct duo *d = bind_both(p, false);
    struct raw gone;
    int code;
    raw_init(&gone, p, SERVER);
    raw_listen(&gone, (struct weir__io_listen){.handle = -1, .datagram = true}, NULL);
    struct weir_addr nowhere = raw_local(&gone);
    raw_close(&gone);
    arm(&d->s, 0);
    arm(&d->c, 0);
    for (unsigned i = 0; i < 6; i++) {
        message(d, i, 10 + i);
        if (i % 2 == 0)
            d->m[i].to = nowhere;
    }
    demand(p, sent(d, 0, 6, &code) == 6 && code == 0);
    for (unsigned i = 0; i < 3; i++)
        is_message(d, i, 2 * i + 1, 11 + 2 * i, false);
    pair_settle(p);
    demand(p, sent(d, 1, 1, &code) == 1 && code == 0);
    is_message(d, 3, 1, 11, false);
    for (unsigned i = 0; i < d->c.n; i++) /* and nothing ended its own receiving */
        demand(p, d->c.done[i].kind == WEIR__IO_SENT);
    close_both(d);
}

static void cancelled_in_between(struct pair *p) {
    struct duo *d = bind_both(p, false);
    struct raw *s = &d->s;
    int code;
    for (unsigned i = 0; i < 8; i++)
        message(d, i, 20 + i);
    demand(p, sent(d, 0, 8, &code) == 8);
    for (unsigned got = 0; got < 8;) {
        unsigned from = s->n;
        arm(s, got < 4 ? 2000 : 3000);
        raw_until(s, from + 1);
        pair_act_as(p, SERVER);
        s->ops->cancel(s->io, s->sock, WEIR__IO_RECV);
        weir__loop_enter(NULL);
        until(p, s->done[s->n - 1].last);
        demand(p, s->done[s->n - 1].code == WEIR_ECANCELLED);
        s->n--;
        for (; from < s->n; from++, got++)
            is_message(d, from, got, 20 + got, false);
    }
    demand(p, as(s, s->ops->parked(s->io, s->sock)) == 0);
    close_both(d);
}

static void closed_with_datagrams_waiting(struct pair *p) {
    struct duo *d = bind_both(p, false);
    int code;
    for (unsigned i = 0; i < 8; i++)
        message(d, i, 20 + i);
    demand(p, sent(d, 0, 8, &code) == 8);
    arm(&d->s, 2000);
    raw_until(&d->s, 1);
    close_both(d);
}

static void closed_with_a_send_in_flight(struct pair *p, bool abort) {
    struct duo *d = bind_both(p, false);
    struct raw *c = &d->c;
    for (unsigned i = 0; i < 4; i++)
        message(d, i, 20 + i);
    int rc = submit(d, 0, 4);
    pair_act_as(p, CLIENT);
    c->ops->close(c->io, c->sock, abort);
    weir__loop_enter(NULL);
    demand(p, submit(d, 0, 4) == WEIR_EGONE);
    demand(p, as(c, c->ops->recv_dgram_arm(c->io, c->sock, 0)) == WEIR_EGONE);
    raw_until(c, rc == 1 ? 1 : 2);
    if (rc == 0)
        demand(p, c->done[0].kind == WEIR__IO_SENT && (abort || c->done[0].count == 4));
    demand(p, raw_is(c, rc == 1 ? 0 : 1, WEIR__IO_CLOSED)->last);
    for (unsigned i = 0; i < 4; i++)
        raw_fini(c, &d->m[i].chain);
    raw_close(&d->s);
    pair_close(p);
}

static void closed_in_flight(struct pair *p) {
    closed_with_a_send_in_flight(p, false);
}

static void aborted_in_flight(struct pair *p) {
    closed_with_a_send_in_flight(p, true);
}

static void outside_the_contract(struct pair *p) {
    struct duo *d = bind_both(p, false);
    struct raw *s = &d->s;
    for (unsigned i = 0; i < MANY; i++)
        message(d, i, 1);
    demand(p, submit(d, 0, 0) == WEIR_EBUG);
    demand(p, submit(d, 0, MANY + 1) == WEIR_EBUG);
    d->m[1].to = (struct weir_addr){0};
    demand(p, submit(d, 0, 2) == WEIR_EBUG);
    raw_fill(&d->c, &d->m[0].chain, 0, WEIR__IO_SEND_BYTES_MAX);
    demand(p, submit(d, 0, 1) == WEIR_EBUG);
    d->m[2].segment_bytes = 1;
    raw_fill(&d->c, &d->m[2].chain, 0, WEIR__IO_SEGMENTS_MAX);
    demand(p, submit(d, 2, 1) == WEIR_EBUG);
    demand(p, as(s, s->ops->recv_arm(s->io, s->sock, -1)) == WEIR_EBUG);
    demand(p, as(s, s->ops->recv_dgram_arm(s->io, s->sock, 65537)) == WEIR_EBUG);
    arm(s, 0);
    demand(p, as(s, s->ops->recv_dgram_arm(s->io, s->sock, 0)) == WEIR_EBUG);
    close_both(d);
}

static void cut_by_the_transport(struct pair *p) {
    struct duo *d = bind_both(p, false);
    int code;
    message(d, 0, 1000);
    d->m[0].segment_bytes = 300;
    if (p->at_a_name) { /* there is nothing that could cut them */
        demand(p, submit(d, 0, 1) == WEIR_EBUG);
        close_both(d);
        return;
    }
    arm(&d->s, 2000);
    demand(p, sent(d, 0, 1, &code) == 1 && code == 0);
    raw_until(&d->s, 4);
    for (unsigned i = 0; i < 4; i++) {
        struct weir_slice *slice = &d->s.done[i].slice;
        demand(p, slice->n == (i < 3 ? 300 : 100) && pattern_is(slice->p, i * 300, slice->n));
    }
    close_both(d);
}

static void joined_by_the_transport(struct pair *p) {
    struct duo *d = bind_both(p, true);
    int code;
    uint64_t bytes = 0;
    arm(&d->s, 0);
    message(d, 0, 1000);
    d->m[0].segment_bytes = p->at_a_name ? 0 : 300;
    demand(p, sent(d, 0, 1, &code) == 1 && code == 0);
    for (unsigned i = 0; bytes < 1000; i++) {
        struct weir__io_done *done = raw_is(&d->s, i, WEIR__IO_DGRAM);
        demand(p, pattern_is(done->slice.p, bytes, done->slice.n));
        demand(p, done->segment_bytes == (done->slice.n > 300 && !p->at_a_name ? 300 : 0));
        bytes += done->slice.n;
    }
    demand(p, bytes == 1000);
    close_both(d);
}

static void marked_by_the_network(struct pair *p) {
    struct duo *d = bind_both(p, false);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    arm(&d->s, 0);
    if (!p->at_a_name) {
        int tos = 3, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        to.sin_port = htons(d->to.port);
        demand(p, setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos) == 0);
        demand(p, sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1);
        demand(p, raw_is(&d->s, 0, WEIR__IO_DGRAM)->ecn == 3);
        close(fd);
    }
    close_both(d);
}

static void without_buffers(struct pair *p) {
    struct duo *d = bind_both(p, false);
    unsigned got = 0, starved = 0, from = 0;
    int code;
    for (unsigned i = 0; i < 32; i++)
        message(d, i, 20 + i);
    for (unsigned done = 0; done < 32;) {
        done += sent(d, done, 32 - done, &code);
        demand(p, code == 0 || code == WEIR_ENOMEM);
    }
    arm(&d->s, 2000);
    for (; got < 32; from++) {
        struct weir__io_done *done = raw_is(&d->s, from, WEIR__IO_DGRAM);
        if (done->last) {
            demand(p, done->code == WEIR_ENOMEM);
            starved++;
            arm(&d->s, 2000);
        } else {
            demand(p, done->slice.n == 20 + got++);
        }
    }
    demand(p, starved > 0);
    close_both(d);
}

const struct suite_case suite_dgram[] = {
    {"dgram.order_and_borders", in_order_with_borders, ANYWHERE, {0}},
    {"dgram.sixty_four", sixty_four_in_one_call, ANYWHERE, {0}},
    {"dgram.truncated", longer_than_asked_for, ANYWHERE, {0}},
    {"dgram.too_long", longer_than_any, ANYWHERE, {0}},
    {"dgram.nobody_there", nobody_there, ANYWHERE, {0}},
    {"dgram.cancel", cancelled_in_between, ANYWHERE, {0}},
    {"dgram.close_with_waiting", closed_with_datagrams_waiting, ANYWHERE, {0}},
    {"dgram.close_in_flight", closed_in_flight, ANYWHERE, {0}},
    {"dgram.abort_in_flight", aborted_in_flight, ANYWHERE, {0}},
    {"dgram.outside_the_contract", outside_the_contract, ANYWHERE, {0}},
    {"dgram.segments", cut_by_the_transport, ANYWHERE, {0}},
    {"dgram.joined", joined_by_the_transport, ANYWHERE, {0}},
    {"dgram.ecn", marked_by_the_network, REAL_ONLY, {0}},
    {"dgram.without_buffers", without_buffers, SIM_ONLY, {.enomem_ppm = 300000}},
    {0},
};
