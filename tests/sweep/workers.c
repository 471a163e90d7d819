/* Beside the loops: jobs and files on workers, in real threads and in the simulation; the admin
 * address; what a load balancer says first. */
#include "loop/files.h"
#include "loop/group.h"
#include "sweep/rooms.h"
#include "sweep/world.h"
#include "weir/admin.h"
#include "weir/job.h"
#include "weir/proxy.h"
#include "weir/sim.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* --- jobs ------------------------------------------------------------------------------------- */

struct task {
    struct weir_job job;
    struct weir_mem *mem;
    unsigned result;
};

static void run(struct weir_job *j) {
    ((struct task *)j)->result = 42;
}

static void done(struct weir_ctx *c, struct weir_job *j, int status) {
    struct task *t = (struct task *)j;
    struct weir_chain out = {0};
    if (status == 0 && t->result != 42)
        sweep_finding("a job has not run");
    int rc = status == 0 ? weir_chain_write(t->mem, &out, "done", 4) : status;
    if (rc == 0)
        rc = weir_ctx_send(c, &out);
    weir_chain_fini(&out);
    weir_mem_free(t);
    if (rc < 0 && c)
        weir_chan_fail(weir_ctx_chan(c), rc);
}

static int job_read(struct weir_ctx *c, struct weir_chain *in) {
    struct task *t = weir_mem_new(weir_ctx_mem(c), sizeof *t);
    if (!t)
        return WEIR_ENOMEM;
    t->mem = weir_ctx_mem(c);
    t->job.run = run;
    t->job.done = done;
    int rc = weir_ctx_offload(c, &t->job, WEIR_ORDERED);
    if (rc < 0)
        weir_mem_free(t);
    else
        weir_chain_drop(in, in->bytes);
    return rc < 0 ? rc : 0;
}

static const struct weir_handler working = {.name = "working", .state_size = 8, .read = job_read};

/* --- files ------------------------------------------------------------------------------------ */

struct reading {
    struct weir__loop_file_op op;
    struct weir_slice bytes;
    struct weir_group *group;
    int rc;
};

static void read_done(struct weir_loop *l, struct weir__loop_file_op *op, int64_t result) {
    struct reading *r = container_of(op, struct reading, op);
    (void)l;
    r->rc = result < 0 ? (int)result : 0;
    weir_slice_release(&r->bytes);
    weir_group_stop(r->group, 0);
}

static void read_it(struct weir_loop *l, struct reading *r) {
    struct weir_file *f = r->op.opened;
    int rc = weir_slice_new(weir_loop_mem(l), 100, &r->bytes);
    r->op.done = read_done;
    rc = rc < 0 ? rc : weir__loop_file_read(l, &r->op, f, 0, r->bytes, false);
    if (rc != 0)
        read_done(l, &r->op, rc);
    weir_file_release(f);
}

static void opened(struct weir_loop *l, struct weir__loop_file_op *op, int64_t result) {
    if (result < 0)
        read_done(l, op, result);
    else
        read_it(l, container_of(op, struct reading, op));
}

static void open_it(struct weir_loop *l, void *user) {
    struct reading *r = user;
    r->op.done = opened;
    int rc = weir__loop_file_open(l, &r->op, NULL, "/proc/self/status", 0);
    if (rc < 0)
        read_done(l, &r->op, rc);
}

/* --- groups ----------------------------------------------------------------------------------- */

static int group_files(const char *variant) {
    (void)variant;
    struct weir_group_options o = {.size = sizeof o, .loops = 1, .workers = 1};
    struct reading r = {0};
    int rc = weir_group_new(&o, &r.group);
    if (rc < 0)
        return rc;
    rc = weir_loop_post(weir_group_loop(r.group, 0), open_it, &r);
    if (rc < 0) {
        weir_group_join(r.group);
        return rc;
    }
    rc = weir_group_run(r.group);
    return rc < 0 ? rc : r.rc;
}

static int admin(const char *variant) {
    (void)variant;
    struct weir_group_options o = {.size = sizeof o, .loops = 1};
    struct weir_group *g;
    struct weir_admin *a;
    int rc = weir_group_new(&o, &g);
    if (rc < 0)
        return rc;
    rc = weir_admin_serve(g, "127.0.0.1:0", &a);
    if (rc >= 0)
        rc = weir_admin_parameter(a, "loops", "1", "default");
    int started = weir_group_start(g);
    weir_group_stop(g, 0);
    int ended = weir_group_join(g);
    return rc < 0 ? rc : started < 0 ? started : ended;
}

/* Until the end; *text begins with its first bytes. A ring that was made on this thread may
 * interrupt it. */
static int read_page(int fd, char *text, size_t cap) {
    char more[4096];
    size_t got = 0;
    for (;;) {
        ssize_t n = recv(fd, more, sizeof more, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? WEIR_ERESET : 0;
        for (ssize_t i = 0; i < n && got < cap; i++)
            text[got++] = more[i];
    }
}

/* One page asked for as a browser does; the patience is for failures that go on. */
static int ask(const char *address, const char *path) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 2};
    char text[256], head[12] = {0};
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = WEIR_EREFUSED;
    at.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int connected;
    do
        connected = connect(fd, (struct sockaddr *)&at, sizeof at);
    while (connected < 0 && errno == EINTR);
    if ((connected == 0 || errno == EISCONN) && send(fd, text, (size_t)n, MSG_NOSIGNAL) == n)
        rc = read_page(fd, head, sizeof head);
    close(fd);
    if (rc == 0 && memcmp(head, "HTTP/1.1 200", sizeof head) != 0)
        rc = WEIR_ETRUNCATED;
    return rc;
}

static int ask_for_all(const char *address) {
    static const char *const paths[] = {"/",        "/stats",       "/metrics",
                                        "/healthz", "/debug/loops", "/debug/findings?seconds=1"};
    int rc = 0;
    sweep_aside(true);
    for (unsigned i = 0; i < sizeof paths / sizeof paths[0] && rc == 0; i++)
        rc = ask(address, paths[i]);
    sweep_aside(false);
    return rc;
}

static int admin_pages(const char *variant) {
    (void)variant;
    struct weir_group_options o = {.size = sizeof o, .loops = 1};
    struct weir_group *g;
    struct weir_admin *a;
    int rc = weir_group_new(&o, &g);
    if (rc < 0)
        return rc;
    rc = weir_admin_serve(g, "127.0.0.1:0", &a);
    int started = weir_group_start(g);
    if (rc >= 0 && started >= 0)
        rc = ask_for_all(weir_admin_address(a));
    weir_group_stop(g, 0);
    int ended = weir_group_join(g);
    return rc < 0 ? rc : started < 0 ? started : ended;
}

/* --- the simulation --------------------------------------------------------------------------- */

static void answered(struct weir_chan *ch, int status, void *user) {
    struct end *e = user;
    (void)ch;
    e->answers++;
    e->status = status < 0 ? status : 0;
}

static bool is_over(void *user) {
    return end_over(user);
}

static int sim_jobs_in(struct weir_sim *w) {
    struct end c = {.send = 10, .want = 4};
    struct weir_server *server;
    struct weir_stage stages[2] = {{&working, NULL}, {&end_handler, &c}};
    struct weir_server_options so = {
        .size = sizeof so, .address = "10.0.0.1:80", .stages = &stages[0], .n_stages = 1};
    struct weir_client_options co = {
        .size = sizeof co, .address = "10.0.0.1:80", .stages = &stages[1], .n_stages = 1};
    struct weir_loop *l = weir_group_loop(weir_sim_group(w), 0);
    int rc = weir_serve(weir_sim_group(w), &so, &server);
    if (rc >= 0) {
        struct weir_loop *before = weir__loop_enter(l);
        rc = weir_connect(l, &co, answered, &c);
        weir__loop_enter(before);
    }
    if (rc >= 0) {
        c.dials++;
        if (weir_sim_run(w, 20000, is_over, &c) != 1)
            sweep_gave_up();
        rc = c.got < 4 && end_result(&c) == 0 ? WEIR_ETRUNCATED : end_result(&c);
    }
    weir_group_stop(weir_sim_group(w), 100);
    weir_group_join(weir_sim_group(w));
    return rc;
}

static int sim_jobs(const char *variant) {
    (void)variant;
    struct weir_sim_options o = {.size = sizeof o, .seed = 3};
    struct weir_sim *w = weir_sim_new(&o);
    if (!w)
        return WEIR_ENOMEM;
    int rc = sim_jobs_in(w);
    if (weir_sim_free(w))
        sweep_finding("things are left in the simulation");
    return rc;
}

/* A job a message, over real doors; the loops of the scenario have no workers, so it says so. */
static int jobs_nowhere(const char *door) {
    struct world w;
    struct weir_stage stage = {&working, NULL};
    struct end s = {.only = &stage}, c = {.send = 10, .want = 4};
    int rc = world_open(&w, door);
    rc = rc < 0 ? rc : world_close(&w, end_talk(&w, &s, &c));
    return rc == WEIR_ETRUNCATED || rc == WEIR_ERESET ? 0 : rc;
}

static int proxied(const char *door) {
    struct world w;
    struct weir_stage front = {&weir_proxy_handler, NULL};
    struct end s = {.echo = true, .front = &front}, c = {.proxy = true, .want = 5};
    int rc = world_open(&w, door);
    return rc < 0 ? rc : world_close(&w, end_talk(&w, &s, &c));
}

/* A header that never comes. */
static int proxy_late(const char *door) {
    static const struct weir_proxy_options options = {.size = sizeof options, .header_ms = 100};
    struct world w;
    struct weir_stage front = {&weir_proxy_handler, &options};
    struct end s = {.front = &front}, c = {0};
    int rc = world_open(&w, door);
    if (rc < 0)
        return rc;
    rc = world_close(&w, end_talk(&w, &s, &c));
    return rc == WEIR_ERESET ? 0 : rc;
}

const struct sweep_scenario sweep_workers[] = {
    {"group_files", group_files, .cold = false},
    {"admin", admin, .cold = false},
    {"admin_pages", admin_pages, .cold = false},
    {"sim_jobs", sim_jobs, .cold = false},
    {"jobs_nowhere", jobs_nowhere, .variants = sweep_doors},
    {"proxied", proxied, .variants = sweep_doors},
    {"proxy_late", proxy_late, .variants = sweep_doors},
    {0},
};
