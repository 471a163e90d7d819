/* Connections: how they begin, what they carry, how they end. */
#include "sweep/rooms.h"
#include "sweep/world.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int echo(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.send = 1000, .want = 1000};
    int rc = world_open(&w, door);
    return rc < 0 ? rc : world_close(&w, end_talk(&w, &s, &c));
}

/* One piece that is longer than a flight, and its way back in many. */
static int echo_large(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.send = 300000, .whole = true, .want = 300000};
    int rc = world_open(&w, door);
    return rc < 0 ? rc : world_close(&w, end_talk(&w, &s, &c));
}

static int half_close(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.send = 5000, .want = 5000, .shut = true, .stay = true};
    int rc = world_open(&w, door);
    return rc < 0 ? rc : world_close(&w, end_talk(&w, &s, &c));
}

static int unix_echo(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.send = 1000, .want = 1000};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    snprintf(w.address, sizeof w.address, "unix:/tmp/weir-sweep-%d", (int)getpid());
    rc = world_close(&w, end_talk(&w, &s, &c));
    unlink(w.address + strlen("unix:"));
    return rc;
}

/* A path whose owner is gone is taken over. */
static int unix_left_over(const char *door) {
    struct sockaddr_un {
        sa_family_t family;
        char path[108];
    } at = {.family = AF_UNIX};
    snprintf(at.path, sizeof at.path, "/tmp/weir-sweep-%d", (int)getpid());
    sweep_aside(true);
    unlink(at.path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
        sweep_finding("the path is taken");
    close(fd);
    sweep_aside(false);
    int rc = unix_echo(door);
    unlink(at.path); /* also when it never came to that */
    return rc;
}

enum { SLOW_BYTES = 3 << 19 };

/* The reader lets nothing in until the writer is full. */
static int slow_reader(const char *door) {
    struct world w;
    struct end s = {.send = SLOW_BYTES,
                    .shut = true,
                    .sndbuf_bytes = 65536, /* the kernel's own choice may hold all of it */
                    .limits = {.held_max = 8 << 20}};
    struct end c = {.credit = -1, .want = SLOW_BYTES, .stay = true};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = end_serve(&w, SERVER, &s);
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    if (rc == 0) {
        world_until(&w, c.answers);
        world_wait_ms(&w, 100); /* a reader that takes nothing is told nothing either */
        struct weir_loop *before = weir__loop_enter(w.side[CLIENT].loop);
        if (c.ctx)
            weir_chan_credit(weir_ctx_chan(c.ctx), -1);
        weir__loop_enter(before);
        world_until(&w, end_over(&c));
        rc = end_result(&c);
    }
    return world_close(&w, rc);
}

/* A few bytes of credit at a time, and abort in the middle. */
static int credit_and_abort(const char *door) {
    struct world w;
    struct end s = {.send = 100000}, c = {.credit = 1000};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = end_serve(&w, SERVER, &s);
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    if (rc == 0) {
        world_until(&w, c.answers && (c.got >= 1000 || end_over(&c)));
        end_close(&c, WEIR_ABORT);
        world_until(&w, end_over(&c) && end_over(&s));
        rc = end_result(&c);
    }
    return world_close(&w, rc == WEIR_ECANCELLED ? 0 : rc);
}

/* --- connecting ------------------------------------------------------------------------------- */

/* A port that is held, and nobody listens, or nobody accepts behind a full backlog. */
static int hold_port(struct world *w, bool listens) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    sweep_aside(true);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&at, len) < 0 || (listens && listen(fd, 0) < 0) ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        sweep_finding("cannot hold a port");
    sweep_aside(false);
    snprintf(w->address, sizeof w->address, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static int refused(const char *door) {
    struct world w;
    struct end c = {0};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    int fd = hold_port(&w, false);
    rc = end_dial(&w, CLIENT, &c);
    world_until(&w, end_over(&c));
    close(fd);
    rc = world_close(&w, rc < 0 ? rc : end_result(&c));
    return rc == WEIR_EREFUSED ? 0 : rc;
}

static int timed_out(const char *door) {
    struct world w;
    struct end fill = {.connect_ms = 2000}, c = {.connect_ms = 500};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    int fd = hold_port(&w, true);
    for (unsigned i = 0; i < 3 && rc == 0; i++)
        rc = end_dial(&w, CLIENT, &fill);
    world_settle(&w);
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    world_until(&w, end_over(&c));
    rc = world_close(&w, rc < 0 ? rc : end_result(&c));
    close(fd);
    return rc == WEIR_ETIMEDOUT ? 0 : rc;
}

/* Refused, timed out and cancelled at once, by a loop that stops. */
static int stopped_meanwhile(const char *door) {
    struct world w;
    struct end c = {.connect_ms = 5000};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    int fd = hold_port(&w, true);
    for (unsigned i = 0; i < 4 && rc == 0; i++)
        rc = end_dial(&w, CLIENT, &c);
    world_settle(&w);
    rc = world_close(&w, rc);
    close(fd);
    if (c.dials != c.answers)
        sweep_finding("%u connects, %u answers", c.dials, c.answers);
    return rc < 0 ? rc : c.status == WEIR_ESTOPPED ? 0 : c.status;
}

enum { BURST = 20 };

static int burst(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.send = 10};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = end_serve(&w, SERVER, &s);
    for (unsigned i = 0; i < BURST && rc == 0; i++)
        rc = end_dial(&w, CLIENT, &c);
    if (rc == 0)
        world_until(&w, c.answers == c.dials && c.got >= (c.opens - c.closes) * 10);
    return world_close(&w, rc < 0 ? rc : end_result(&c));
}

static void set_limit(const struct rlimit *limit) {
    sweep_aside(true);
    if (setrlimit(RLIMIT_NOFILE, limit) < 0)
        sweep_finding("the limit stays");
    sweep_aside(false);
}

/* No descriptor is left while the listener accepts; later there are some again. */
static int descriptor_wall(const char *door) {
    struct world w;
    struct rlimit before, low;
    struct end s = {.echo = true}, c = {.send = 10, .want = 10};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    sweep_aside(true);
    getrlimit(RLIMIT_NOFILE, &before);
    sweep_aside(false);
    rc = end_serve(&w, SERVER, &s);
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    low = before;
    int top = dup(0); /* the lowest free number: accept finds none below it */
    low.rlim_cur = (rlim_t)top;
    close(top);
    set_limit(&low);
    world_wait_ms(&w, 250);
    set_limit(&before);
    world_until(&w, rc < 0 || end_over(&c));
    return world_close(&w, rc < 0 ? rc : end_result(&c));
}

static int idle_close(const char *door) {
    struct world w;
    struct end s = {.limits = {.idle_ms = 100}}, c = {0};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = world_close(&w, end_talk(&w, &s, &c));
    if (rc == 0 && s.opens && s.why != WEIR_EIDLE && s.why == 0)
        sweep_finding("idleness closed nothing");
    return rc;
}

/* --- what is not bytes ------------------------------------------------------------------------ */

enum { FILE_BYTES = 400000 };

static int scratch_file(void) {
    char name[] = "/tmp/weir-sweep-file-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    unlink(name);
    if (fd < 0 || ftruncate(fd, FILE_BYTES) < 0)
        sweep_finding("cannot make a file");
    return fd;
}

static int file_region(const char *door) {
    struct world w;
    struct end s = {.send = FILE_BYTES, .shut = true}, c = {.want = FILE_BYTES, .stay = true};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    struct weir_loop *before = weir__loop_enter(w.side[SERVER].loop);
    int fd = scratch_file();
    s.file = weir_file_new(w.side[SERVER].mem, fd, FILE_BYTES);
    weir__loop_enter(before);
    if (s.file)
        rc = end_talk(&w, &s, &c);
    else
        close(fd);
    before = weir__loop_enter(w.side[SERVER].loop);
    rc = s.file ? rc : WEIR_ENOMEM;
    if (s.file)
        weir_file_release(s.file);
    weir__loop_enter(before);
    return world_close(&w, rc);
}

/* Listeners from somebody else. */
static int inherited(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.send = 100, .want = 100};
    struct weir_stage stage = {&end_handler, &s};
    struct weir_server *server;
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    int fd = hold_port(&w, true);
    struct weir_server_options o = {
        .size = sizeof o, .stages = &stage, .n_stages = 1, .fds = &fd, .n_fds = 1};
    rc = weir_serve(w.side[SERVER].group, &o, &server);
    bool mine = rc < 0; /* some of them may be closed: not one that was never taken */
    if (rc == 0)
        rc = end_dial(&w, CLIENT, &c);
    if (rc == 0) {
        world_until(&w, end_over(&c));
        rc = end_result(&c);
    }
    rc = world_close(&w, rc);
    if (mine)
        close(fd);
    return rc;
}

/* A port that is known before, which is claimed first. */
static int fixed_port(const char *door) {
    struct world w;
    struct end s = {.echo = true}, c = {.send = 100, .want = 100};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    close(hold_port(&w, false));
    return world_close(&w, end_talk(&w, &s, &c));
}

static const char *const one_door[] = {"lt", NULL};

const struct sweep_scenario sweep_connections[] = {
    {"echo", echo, .variants = sweep_doors},
    {"echo_large", echo_large, .variants = sweep_doors},
    {"echo_cold", echo, .variants = sweep_doors, .cold = true},
    {"half_close", half_close, .variants = sweep_doors},
    {"slow_reader", slow_reader, .variants = sweep_doors},
    {"credit_and_abort", credit_and_abort, .variants = sweep_doors},
    {"unix", unix_echo, .variants = sweep_doors},
    {"unix_left_over", unix_left_over, .variants = sweep_doors},
    {"refused", refused, .variants = sweep_doors},
    {"timed_out", timed_out, .variants = sweep_doors},
    {"stopped_meanwhile", stopped_meanwhile, .variants = sweep_doors},
    {"accept_burst", burst, .variants = sweep_doors},
    {"descriptor_wall", descriptor_wall, .variants = sweep_doors},
    {"idle_close", idle_close, .variants = sweep_doors},
    {"file_region", file_region, .variants = sweep_doors},
    {"fixed_port", fixed_port, .variants = one_door},
    {"inherited", inherited, .variants = sweep_doors},
    {0},
};
