/* What is asked of the kernel and of memory directly, one call after the other: here the kernel
 * itself says no, which the doors seldom hear, and pools are set up in every way. */
#include "loop/files.h"
#include "mem/pool.h"
#include "os/cpu.h"
#include "os/dgram.h"
#include "os/entropy.h"
#include "os/epoll.h"
#include "os/event.h"
#include "os/file.h"
#include "os/error.h"
#include "os/limit.h"
#include "os/listener.h"
#include "os/memory.h"
#include "os/proc.h"
#include "os/sample.h"
#include "os/signal.h"
#include "os/sock.h"
#include "os/sockopt.h"
#include "os/symbol.h"
#include "os/thread.h"
#include "sweep/rooms.h"
#include "sweep/world.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NO_FD = -1 };

/* --- no --------------------------------------------------------------------------------------- */

static void must_fail(const char *what, long rc) {
    if (rc >= 0)
        sweep_finding("%s succeeds on nothing", what);
}
#define NO(call) must_fail(#call, (long)(call))

static void sockets_say_no(void) {
    struct weir_addr at = {.kind = WEIR__ADDR_IP4};
    struct msghdr m = {0};
    uint8_t byte = 0;
    uint32_t bytes;
    unsigned got;
    int fd = 0;
    NO(weir__os_bind(NO_FD, &at));
    NO(weir__os_listen(NO_FD, 1));
    NO(weir__os_accept(NO_FD, &at));
    NO(weir__os_connect(NO_FD, &at));
    NO(weir__os_local(NO_FD, &at));
    NO(weir__os_peer(NO_FD, &at));
    NO(weir__os_shutdown_write(NO_FD));
    NO(weir__os_sock_error(NO_FD));
    NO(weir__os_unsent(NO_FD, &bytes));
    NO(weir__os_recv(NO_FD, &byte, 1));
    NO(weir__os_send(NO_FD, &byte, 1, false));
    NO(weir__os_sendmsg(NO_FD, &m, 0));
    NO(weir__os_recvmsg(NO_FD, &m, 0));
    NO(weir__os_sendfile(NO_FD, NO_FD, 0, 1));
    NO(weir__os_send_fds(NO_FD, &fd, 1, &byte, 1));
    NO(weir__os_recv_fds(NO_FD, &fd, 1, &got, &byte, 1));
    NO(weir__os_is_unix(NO_FD));
    NO(weir__os_set_crypto(NO_FD, true, &byte, 1));
    NO(weir__os_listener_queue(NO_FD, &bytes, &bytes));
    NO(weir__os_set_nonblock(NO_FD));
    NO(weir__os_get_sndbuf(NO_FD));
    NO(weir__os_epoll_add(NO_FD, NO_FD, 0, 0));
    NO(weir__os_event_drain(NO_FD));
}

static void datagrams_say_no(void) {
    struct weir_addr at = {.kind = WEIR__ADDR_IP4};
    struct weir__os_dgram in;
    struct weir__os_dgram_out out = {.to = &at};
    uint8_t byte;
    NO(weir__os_dgram_setup(NO_FD, true));
    NO(weir__os_dgram_recv(NO_FD, true, &byte, 1, 1, &in));
    NO(weir__os_dgram_send(NO_FD, &out, 1));
}

static void files_say_no(void) {
    struct weir__os_stat stat;
    char text[8];
    NO(weir__os_file_open(AT_FDCWD, "/nowhere/at/all", O_RDONLY));
    NO(weir__os_file_stat(NO_FD, &stat));
    NO(weir__os_file_read(NO_FD, text, 1, 0));
    NO(weir__os_file_read_nowait(NO_FD, text, 1, 0));
    NO(weir__os_file_write(NO_FD, text, 1));
    NO(weir__os_file_unlink("/nowhere/at/all"));
    NO(weir__os_file_text("/nowhere/at/all", text, sizeof text));
    NO(weir__os_file_text("/proc/self/maps", text, sizeof text)); /* longer than that */
    NO(weir__os_file_link("/nowhere/at/all", text, sizeof text));
}

static int the_kernel_says_no(const char *variant) {
    (void)variant;
    sockets_say_no();
    datagrams_say_no();
    files_say_no();
    NO(weir__os_thread_pin(1u << 20));
    NO(weir__os_map_guard((void *)(uintptr_t)1, 1));
    if (weir__os_map(SIZE_MAX / 4, 0))
        sweep_finding("the kernel maps everything");
    return 0;
}

/* --- small calls ------------------------------------------------------------------------------ */

static int file_calls(void) {
    char path[] = "/tmp/weir-sweep-call-XXXXXX", text[64];
    struct weir__os_stat stat;
    int scratch = mkstemp(path), rc = 0;
    if (scratch < 0)
        return 0;
    close(scratch);
    int fd = weir__os_file_open(AT_FDCWD, path, O_RDWR);
    if (fd < 0) {
        unlink(path);
        return fd;
    }
    for (unsigned done = 0; rc >= 0 && done < 5; done += (unsigned)rc)
        rc = (int)weir__os_file_write(fd, &"hello"[done], 5 - done);
    rc = rc < 0 ? rc : weir__os_file_stat(fd, &stat);
    if (rc >= 0 && (rc = (int)weir__os_file_read_nowait(fd, text, 5, 0)) == -EAGAIN)
        rc = 0;
    rc = rc < 0 ? rc : weir__os_file_text(path, text, sizeof text);
    weir__os_close(fd);
    unlink(path);
    return rc;
}

static int pair_calls(void) {
    uint8_t byte = 0;
    int pair[2], rc = weir__os_socketpair(SOCK_STREAM, pair), in[2] = {0, 0};
    unsigned got = 0;
    if (rc < 0)
        return rc;
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    rc = (int)weir__os_send_fds(pair[0], pair, 1, &byte, 1);
    rc = rc < 0 ? rc : (int)weir__os_recv_fds(pair[1], in, 2, &got, &byte, 1);
    for (unsigned i = 0; rc >= 0 && i < got; i++)
        weir__os_close(in[i]);
    rc = rc < 0 ? rc : (int)weir__os_sendmsg(pair[0], &m, 0);
    rc = rc < 0 ? rc : (int)weir__os_recvmsg(pair[1], &m, 0);
    weir__os_close(pair[0]);
    weir__os_close(pair[1]);
    return rc == -EAGAIN ? 0 : rc; /* an event would say when */
}

static void nothing(void *user) {
    (void)user;
}

static int thread_calls(void) {
    struct weir__os_thread t;
    uint64_t ns;
    int rc = weir__os_thread_start(&t, "sweep", nothing, NULL);
    if (rc < 0)
        return rc;
    rc = weir__os_thread_cpu(&t, &ns);
    weir__os_thread_join(&t);
    return rc == -ESRCH || rc == -EINVAL ? 0 : rc; /* it was quicker */
}

/* Down by one, and up again. */
static int limit_calls(void) {
    struct rlimit limit;
    uint64_t soft, hard;
    int rc = weir__os_limit_files(&soft, &hard);
    if (rc < 0)
        return rc;
    limit.rlim_cur = soft - 1;
    limit.rlim_max = hard;
    sweep_aside(true);
    setrlimit(RLIMIT_NOFILE, &limit);
    sweep_aside(false);
    rc = weir__os_limit_files_raise(soft, NULL);
    limit.rlim_cur = soft;
    sweep_aside(true);
    setrlimit(RLIMIT_NOFILE, &limit);
    sweep_aside(false);
    return rc;
}

static int option_calls(void) {
    struct weir_socket_options o = {.sndbuf_bytes = 65536, .rcvbuf_bytes = 65536};
    struct weir_addr at = {.kind = WEIR__ADDR_IP6};
    int fd = weir__os_socket(&at, SOCK_STREAM);
    if (fd < 0)
        return fd;
    int rc = weir__os_sock_apply(fd, &o, false);
    rc = rc < 0 ? rc : weir__os_sock_effective(fd, false, &o);
    weir__os_close(fd);
    return rc;
}

static void note(struct weir__os_sampled *s, int what, const struct weir__os_stack *at) {
    (void)s, (void)what, (void)at;
}

static int sample_calls(void) {
    struct weir__os_sampled s = {0};
    uint64_t ns;
    int rc = weir__os_sample_open();
    if (rc < 0)
        return rc;
    weir__os_sampled_join(&s, note);
    rc = weir__os_sampled_start(&s, 100, 1);
    bool started = rc >= 0;
    rc = rc < 0 ? rc : weir__os_sampled_ask(&s, 2);
    rc = rc < 0 ? rc : weir__os_sampled_cpu(&s, &ns);
    if (started)
        weir__os_sampled_stop(&s);
    weir__os_sampled_leave(&s);
    weir__os_sample_close();
    return rc;
}

/* Negative errnos as callers of the library would see them. */
static int small_calls(const char *variant) {
    (void)variant;
    struct weir__os_mutex mutex;
    struct weir__os_cond cond;
    uint64_t chance;
    int rc = file_calls();
    rc = rc < 0 ? rc : pair_calls();
    rc = rc < 0 ? rc : thread_calls();
    rc = rc < 0 ? rc : limit_calls();
    rc = rc < 0 ? rc : option_calls();
    rc = rc < 0 ? rc : sample_calls();
    rc = rc < 0 ? rc : weir__os_entropy(&chance, sizeof chance);
    if (rc >= 0 && (rc = weir__os_mutex_init(&mutex)) >= 0)
        weir__os_mutex_fini(&mutex);
    if (rc >= 0 && (rc = weir__os_cond_init(&cond)) >= 0)
        weir__os_cond_fini(&cond);
    weir__os_cpu_count();
    weir__os_proc_resident();
    weir__os_proc_idle(&(unsigned){0}, 1);
    return rc < 0 ? weir__os_error(rc) : 0;
}

static int symbols(const char *variant) {
    (void)variant;
    struct weir__os_symbols *s;
    char name[128];
    int rc = weir__os_symbols_new(&s);
    if (rc < 0)
        return weir__os_error(rc);
    weir__os_symbols_name(s, (uintptr_t)symbols, true, name, sizeof name);
    weir__os_symbols_name(s, (uintptr_t)malloc, false, name, sizeof name);
    weir__os_symbols_name(s, 1, false, name, sizeof name);
    weir__os_symbols_free(s);
    return 0;
}

/* --- pools ------------------------------------------------------------------------------------ */

static int chains(struct weir_mem *m) {
    static const uint8_t bytes[5000];
    struct weir_chain a = {0}, b = {0};
    struct weir_slice s = {0}, big = {0};
    uint64_t value;
    void *big_object = weir_mem_new(m, 200000), *object = weir_mem_new(m, 200),
         *large = weir_mem_new(m, 3 << 20);
    int rc = big_object && object && large ? 0 : WEIR_ENOMEM;
    rc = rc < 0 ? rc : weir_chain_write(m, &a, bytes, sizeof bytes);
    rc = rc < 0 ? rc : weir_slice_copy(m, bytes, 100, &s);
    rc = rc < 0 ? rc : weir_chain_add(m, &a, &s);
    rc = rc < 0 ? rc : weir_slice_copy(m, bytes, 100, &s);
    rc = rc < 0 ? rc : weir_chain_prepend(m, &a, &s);
    rc = rc < 0 ? rc : weir_slice_new(m, 2 << 20, &big);
    rc = rc < 0 ? rc : weir_chain_add(m, &a, &big);
    rc = rc < 0 ? rc : weir_chain_get_be(&a, 98, 4, &value); /* across a seam */
    rc = rc < 0 ? rc : weir_chain_move(m, &b, &a, 50);
    rc = rc < 0 ? rc : weir_chain_take(m, &a, 60, &s); /* and another */
    if (rc >= 0 && !weir_chain_peek(m, &a, 20000))     /* and into the last part */
        rc = WEIR_ENOMEM;
    weir_slice_release(&s);
    weir_slice_release(&big);
    weir_chain_fini(&a);
    weir_chain_fini(&b);
    weir_mem_free(big_object);
    weir_mem_free(object);
    weir_mem_free(large);
    return rc;
}

static const char *const pool_kinds[] = {"cached", "pooled", "unpooled", "guarded", NULL};

static int pool(const char *kind) {
    struct weir_mem_debug debug = {.size = sizeof debug, .guard_min = 64};
    struct weir_mem_options o = {.size = sizeof o};
    o.mode = !strcmp(kind, "pooled")     ? WEIR_MEM_POOLED
             : !strcmp(kind, "unpooled") ? WEIR_MEM_UNPOOLED
                                         : WEIR_MEM_CACHED;
    o.debug = !strcmp(kind, "guarded") ? &debug : NULL;
    struct weir_mem *m = weir_mem_open(kind);
    if (!m)
        return WEIR_ENOMEM;
    int rc = weir_mem_configure(m, &o);
    rc = rc < 0 ? rc : chains(m);
    if (weir_mem_live(m))
        sweep_finding("%llu bytes of a pool are alive", (unsigned long long)weir_mem_live(m));
    weir_mem_close(m);
    return rc;
}

const struct sweep_scenario sweep_kernel[] = {
    {"the_kernel_says_no", the_kernel_says_no, .cold = false},
    {"small_calls", small_calls, .cold = false},
    {"symbols", symbols, .cold = false},
    {"pool", pool, .variants = pool_kinds},
    {0},
};
