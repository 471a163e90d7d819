#include "os/dgram.h"
#include "os/fault.h"
#include "os/sock.h"
#include "weir/mem.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { EACH = 2048, MAX = WEIR__OS_DGRAMS_MAX };

static uint8_t room[MAX * EACH];

struct duo {
    int from, to;
    bool ip;
    struct weir_addr at; /* of `to` */
};

static int bound(const char *text, struct weir_addr *at) {
    struct weir_addr a = {.kind = WEIR__ADDR_UNIX}; /* without a path: the kernel picks a name */
    if (text)
        assert_int_equal(weir__base_addr_parse(text, &a, NULL), 0);
    int fd = weir__os_socket(&a, SOCK_DGRAM);
    assert_true(fd >= 0);
    assert_int_equal(weir__os_bind(fd, &a), 0);
    assert_int_equal(weir__os_local(fd, at), 0);
    return fd;
}

static struct duo duo(const char *text, bool gro) {
    struct duo d;
    struct weir_addr from;
    d.from = bound(text, &from);
    d.to = bound(text, &d.at);
    int rc = weir__os_dgram_setup(d.to, gro);
    assert_int_equal(rc, text ? 1 : 0);
    d.ip = rc;
    return d;
}

static void part(struct duo *d) {
    weir__os_close(d->from);
    weir__os_close(d->to);
}

static int take(struct duo *d, unsigned max, struct weir__os_dgram *out) {
    struct pollfd p = {.fd = d->to, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 10000), 1);
    return weir__os_dgram_recv(d->to, d->ip, room, EACH, max, out);
}

static void several_at_once(const char *text) {
    struct duo d = duo(text, false);
    const struct iovec two[] = {{"ab", 2}, {"cde", 3}}, one = {"f", 1};
    struct weir__os_dgram_out out[] = {
        {&d.at, two, 2, 0}, {&d.at, NULL, 0, 0}, {&d.at, &one, 1, 0}};
    struct weir__os_dgram got[MAX];
    struct weir_addr from;
    assert_int_equal(weir__os_local(d.from, &from), 0);
    assert_int_equal(weir__os_dgram_send(d.from, out, 3), 3);
    int n = take(&d, 2, got);
    assert_int_equal(n, 2); /* loopback: all are there with the first */
    assert_int_equal(got[0].n, 5);
    assert_memory_equal(room, "abcde", 5);
    assert_int_equal(got[1].n, 0);
    assert_true(weir__base_addr_equal(&got[1].peer, &from));
    assert_int_equal(take(&d, 100, got), 1);
    assert_int_equal(got[0].n, 1);
    assert_false(got[0].truncated);
    assert_int_equal(weir__os_dgram_recv(d.to, d.ip, room, EACH, MAX, got), -EAGAIN);
    part(&d);
}

static void several_over_each_family(void **state) {
    (void)state;
    several_at_once("127.0.0.1:0");
    several_at_once("[::1]:0");
    several_at_once(NULL);
}

static void what_does_not_fit_is_cut(void **state) {
    (void)state;
    static uint8_t bytes[EACH + 1];
    struct duo d = duo("127.0.0.1:0", false);
    const struct iovec part_of = {bytes, sizeof bytes};
    struct weir__os_dgram_out out = {&d.at, &part_of, 1, 0};
    struct weir__os_dgram got[MAX];
    assert_int_equal(weir__os_dgram_send(d.from, &out, 1), 1);
    assert_int_equal(take(&d, MAX, got), 1);
    assert_int_equal(got[0].n, EACH);
    assert_true(got[0].truncated);
    part(&d);
}

static void congestion_is_told(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int level, name;
    } families[] = {{"127.0.0.1:0", IPPROTO_IP, IP_TOS}, {"[::1]:0", IPPROTO_IPV6, IPV6_TCLASS}};
    for (size_t i = 0; i < 2; i++) {
        struct duo d = duo(families[i].text, false);
        const struct iovec one = {"x", 1};
        struct weir__os_dgram_out out = {&d.at, &one, 1, 0};
        struct weir__os_dgram got[MAX];
        int tos = 0xb8 | 3;
        assert_int_equal(setsockopt(d.from, families[i].level, families[i].name, &tos, sizeof tos),
                         0);
        assert_int_equal(weir__os_dgram_send(d.from, &out, 1), 1);
        assert_int_equal(take(&d, MAX, got), 1);
        assert_int_equal(got[0].ecn, 3);
        part(&d);
    }
}

static void segments_are_cut_and_joined(void **state) {
    (void)state;
    static uint8_t bytes[1000];
    for (int gro = 0; gro < 2; gro++) {
        struct duo d = duo("127.0.0.1:0", gro);
        const struct iovec part_of = {bytes, sizeof bytes};
        struct weir__os_dgram_out out = {&d.at, &part_of, 1, 300};
        struct weir__os_dgram got[MAX];
        uint32_t sum = 0;
        assert_int_equal(weir__os_dgram_send(d.from, &out, 1), 1);
        while (sum < sizeof bytes) {
            int n = take(&d, MAX, got);
            assert_true(n > 0);
            for (int i = 0; i < n; i++) {
                assert_int_equal(got[i].segment_bytes, got[i].n > 300 ? 300 : 0);
                assert_true(gro || got[i].n <= 300);
                sum += got[i].n;
            }
        }
        assert_int_equal(sum, sizeof bytes);
        part(&d);
    }
}

/* A descriptor that comes with a datagram is not kept by anybody. */
static void handles_are_not_taken(void **state) {
    (void)state;
    struct duo d = duo(NULL, false);
    struct weir__os_dgram got[MAX];
    int probe = dup(d.to);
    close(probe);
    assert_int_equal(weir__os_connect(d.from, &d.at), 0);
    assert_int_equal(weir__os_send_fds(d.from, &d.from, 1, "x", 1), 1);
    assert_int_equal(take(&d, MAX, got), 1);
    assert_int_equal(dup(d.to), probe);
    close(probe);
    part(&d);
}

static void failures_are_told(void **state) {
    (void)state;
    struct duo d = duo(NULL, false);
    const struct iovec one = {"x", 1};
    struct weir_addr nowhere;
    struct weir__os_dgram got[MAX];
    weir__os_close(bound(NULL, &nowhere));
    struct weir__os_dgram_out out[] = {{&d.at, &one, 1, 0}, {&nowhere, &one, 1, 0}};
    assert_int_equal(weir__os_dgram_send(d.from, out, 2), 1);
    int rc = weir__os_dgram_send(d.from, out + 1, 1);
    assert_int_equal(rc, -ECONNREFUSED);
    assert_true(weir__os_dgram_skips(rc));
    assert_false(weir__os_dgram_skips(-EAGAIN));
    assert_false(weir__os_dgram_skips(-EMSGSIZE));
    assert_false(weir__os_dgram_skips(1));
    static const enum weir__os_kind kinds[] = {WEIR__OS_RECV, WEIR__OS_SEND, WEIR__OS_SOCKOPT};
    for (size_t i = 0; i < 3; i++) {
        struct weir__os_fault f = {.kind = kinds[i], .nth = 1, .error = EIO};
        weir__os_fault_set(&f);
        rc = i == 0   ? weir__os_dgram_recv(d.to, false, room, EACH, 1, got)
             : i == 1 ? weir__os_dgram_send(d.from, out, 1)
                      : weir__os_dgram_setup(d.to, false);
        assert_int_equal(rc, -EIO);
        weir__os_fault_set(NULL);
    }
    part(&d);
    assert_int_equal(weir__os_dgram_recv(d.to, false, room, EACH, 1, got), -EBADF);
    assert_int_equal(weir__os_dgram_send(d.from, out, 1), -EBADF);
    assert_int_equal(weir__os_dgram_setup(d.to, false), -EBADF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_over_each_family), cmocka_unit_test(what_does_not_fit_is_cut),
        cmocka_unit_test(congestion_is_told),       cmocka_unit_test(segments_are_cut_and_joined),
        cmocka_unit_test(handles_are_not_taken),    cmocka_unit_test(failures_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
