/* Closed-loop client: N connections, one request outstanding on each, every answer compared.
 * It polls without sleeping, because on a virtual machine waking an idle CPU costs the waker some
 * 30 us, and the server would be charged for it.
 *
 *      WARM --warm_ms over--> OPEN --seconds over, or requests answered--> CLOSED
 *
 * Clocks and CPU counters are read at the two arrows; with --requests there is no warm-up and the
 * first arrow lies before the first byte.
 *
 * With --lock-step all connections ask, then all are answered, then again. The client sleeps while
 * it waits, so it can share the server's CPU; there a server that does not preempt it (SCHED_BATCH)
 * finds all the requests at once, and every one of its turns has the same work. */
#include "peer.h"
#include "wire.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    DIGEST_VARIANTS = 8, /* the client must not be slower than the server it asks */
    RECEIVE_BYTES = 128 * 1024,
    STALL_S = 20,
};

enum mode { MODE_LONG, MODE_SHORT, MODE_LINKD, MODE_DIGEST, MODE_LINKD_SHORT, MODES };

static const char *const mode_names[] = {"long", "short", "linkd", "digest", "linkd-short"};

struct options {
    struct sockaddr_in address;
    enum mode mode;
    unsigned connections;
    size_t size;
    double seconds;
    double warm_ms;
    uint64_t requests; /* 0: run for `seconds` */
    bool lock_step;
    int server_pid;
    int server_cpu, client_cpu; /* whose foreign load to report */
};

struct conn {
    int fd;
    uint64_t stamp; /* names the request whose answer is awaited */
    size_t got;
};

/* Everything read at the edges of the measured window, in nanoseconds. */
struct edge {
    uint64_t wall, server, client, server_cpu, client_cpu;
};

struct client {
    struct options options;
    int epoll;
    struct conn *conns;
    uint8_t *request, *answer; /* templates: the stamp is put in just before use */
    size_t request_bytes, answer_bytes;
    uint64_t started, answered;
    uint8_t digests[DIGEST_VARIANTS][WIRE_DIGEST_BYTES];
    uint8_t in[RECEIVE_BYTES];
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Execution time of every thread of a process. */
static uint64_t process_ns(int pid) {
    char path[64];
    uint64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char file[sizeof path + sizeof task->d_name + 16];
        unsigned long long ns;
        if (task->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s/schedstat", path, task->d_name);
        FILE *stat = fopen(file, "r");
        if (stat && fscanf(stat, "%llu", &ns) == 1)
            sum += ns;
        if (stat)
            fclose(stat);
    }
    closedir(tasks);
    return sum;
}

/* How long a CPU was not idle; the kernel counts it in ticks of 10 ms. */
static uint64_t cpu_busy_ns(int cpu) {
    char line[512];
    uint64_t ticks = 0;
    FILE *stat = fopen("/proc/stat", "r");
    if (!stat)
        return 0;
    while (fgets(line, sizeof line, stat)) {
        unsigned long long user, nice, system, idle, iowait, irq, softirq;
        int number;
        if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu", &number, &user, &nice, &system,
                   &idle, &iowait, &irq, &softirq) == 8 &&
            number == cpu && line[3] != ' ')
            ticks = user + nice + system + irq + softirq;
    }
    fclose(stat);
    return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static struct edge edge_read(const struct options *options) {
    struct timespec own;
    struct edge edge = {.server = process_ns(options->server_pid),
                        .server_cpu = cpu_busy_ns(options->server_cpu),
                        .client_cpu = cpu_busy_ns(options->client_cpu)};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    edge.client = (uint64_t)own.tv_sec * 1000000000u + (uint64_t)own.tv_nsec;
    edge.wall = now_ns();
    return edge;
}

static _Noreturn void fail(const struct client *client, const struct conn *conn, const char *what) {
    fprintf(stderr,
            "spin_client: %s (request %llu, after %zu good bytes of its answer, %llu answered)\n",
            what, (unsigned long long)conn->stamp, conn->got, (unsigned long long)client->answered);
    exit(1);
}

/* ---- messages ---- */

static bool framed(const struct client *client) {
    return client->options.mode != MODE_LONG && client->options.mode != MODE_SHORT;
}

/* A connection per request. */
static bool is_short(const struct client *client) {
    return client->options.mode == MODE_SHORT || client->options.mode == MODE_LINKD_SHORT;
}

static void stamp_payload(uint8_t *payload, size_t size, uint64_t stamp) {
    memcpy(payload, &stamp, size < sizeof stamp ? size : sizeof stamp);
}

static void stamp_request(struct client *client, uint64_t stamp) {
    size_t head = 0;
    if (framed(client)) {
        struct wire_head frame = {
            .type = WIRE_REQUEST, .id = stamp, .length = (uint32_t)client->options.size};
        wire_head_write(client->request, &frame);
        head = WIRE_HEAD_BYTES;
    }
    stamp_payload(client->request + head, client->options.size,
                  client->options.mode == MODE_DIGEST ? stamp % DIGEST_VARIANTS : stamp);
}

static void stamp_answer(struct client *client, uint64_t stamp) {
    if (!framed(client)) {
        stamp_payload(client->answer, client->options.size, stamp);
        return;
    }
    struct wire_head frame = {.type = WIRE_RESPONSE,
                              .id = stamp,
                              .length = (uint32_t)(client->answer_bytes - WIRE_HEAD_BYTES)};
    wire_head_write(client->answer, &frame);
    if (client->options.mode != MODE_DIGEST)
        stamp_payload(client->answer + WIRE_HEAD_BYTES, client->options.size, stamp);
    else
        memcpy(client->answer + WIRE_HEAD_BYTES, client->digests[stamp % DIGEST_VARIANTS],
               WIRE_DIGEST_BYTES);
}

static void messages_init(struct client *client) {
    size_t head = framed(client) ? WIRE_HEAD_BYTES : 0, size = client->options.size;
    client->request_bytes = head + size;
    client->answer_bytes = client->options.mode == MODE_DIGEST ? WIRE_HEAD_BYTES + WIRE_DIGEST_BYTES
                                                               : head + size;
    client->request = malloc(client->request_bytes);
    client->answer = malloc(client->answer_bytes > client->request_bytes ? client->answer_bytes
                                                                         : client->request_bytes);
    if (!client->request || !client->answer)
        peer_die("malloc");
    for (size_t i = 0; i < size; i++)
        client->request[head + i] = client->answer[head + i] = (uint8_t)(i * 131 + i / 256 + 7);
    if (client->options.mode != MODE_DIGEST)
        return;
    for (uint64_t i = 0; i < DIGEST_VARIANTS; i++) {
        stamp_payload(client->request + head, size, i);
        wire_digest_rounds(client->request + head, size, client->digests[i]);
    }
}

/* ---- connections ---- */

static void conn_open(struct client *client, struct conn *conn) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        peer_die("socket");
    peer_nodelay(conn->fd);
    if (connect(conn->fd, (const struct sockaddr *)&client->options.address,
                sizeof client->options.address))
        peer_die("connect");
    if (epoll_ctl(client->epoll, EPOLL_CTL_ADD, conn->fd, &event))
        peer_die("epoll_ctl");
}

static void conn_ask(struct client *client, struct conn *conn) {
    if (client->options.requests && client->started == client->options.requests)
        return;
    if (is_short(client))
        conn_open(client, conn);
    conn->stamp = ++client->started;
    conn->got = 0;
    stamp_request(client, conn->stamp);
    for (size_t sent = 0; sent < client->request_bytes;) {
        ssize_t count = send(conn->fd, client->request + sent, client->request_bytes - sent,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN)
            fail(client, conn, strerror(errno));
        sent += count < 0 ? 0 : (size_t)count;
    }
}

static void conn_receive(struct client *client, struct conn *conn) {
    ssize_t count = recv(conn->fd, client->in, sizeof client->in, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN)
        return;
    if (count <= 0)
        fail(client, conn, count ? strerror(errno) : "the server closed the connection");
    stamp_answer(client, conn->stamp);
    if ((size_t)count > client->answer_bytes - conn->got)
        fail(client, conn, "more bytes than the answer has");
    if (memcmp(client->in, client->answer + conn->got, (size_t)count) != 0)
        fail(client, conn, "the answer differs");
    conn->got += (size_t)count;
    if (conn->got < client->answer_bytes)
        return;
    client->answered++;
    if (is_short(client))
        close(conn->fd);
    if (!client->options.lock_step)
        conn_ask(client, conn);
}

/* ---- the run ---- */

/* Returns how many connections had something to receive. */
static int turn(struct client *client, int wait_ms) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(client->epoll, events, EVENTS_MAX, wait_ms);
    for (int i = 0; i < count; i++)
        conn_receive(client, events[i].data.ptr);
    return count;
}

/* Turns until the clock says `until` or as many requests as asked for are answered. */
static void turn_until(struct client *client, uint64_t until) {
    uint64_t answered = client->answered, moved = now_ns();
    for (uint64_t now = moved; now < until; now = now_ns()) {
        turn(client, 0);
        if (client->options.requests && client->answered == client->options.requests)
            return;
        if (client->answered != answered) {
            answered = client->answered;
            moved = now;
        } else if (now - moved > STALL_S * 1000000000ull) {
            fail(client, &client->conns[0], "no answer on any connection");
        }
    }
}

static void ask_all(struct client *client) {
    for (unsigned i = 0; i < client->options.connections; i++)
        conn_ask(client, &client->conns[i]);
}

static void lock_step(struct client *client) {
    while (client->answered < client->options.requests) {
        ask_all(client);
        while (client->answered < client->started) {
            if (turn(client, STALL_S * 1000) == 0)
                fail(client, &client->conns[0], "no answer on any connection");
        }
    }
}

static void report(const struct options *options, uint64_t answered, const struct edge *from,
                   const struct edge *to) {
    double wall = (double)(to->wall - from->wall), server = (double)(to->server - from->server);
    double own = (double)(to->client - from->client), count = answered ? (double)answered : 1;
    double on_server_cpu = (double)(to->server_cpu - from->server_cpu);
    double on_client_cpu = (double)(to->client_cpu - from->client_cpu);
    printf(
        "mode=%s connections=%u size=%zu requests=%llu wall_ms=%.3f rate=%.0f server_cpu_us=%.4f "
        "server_busy_pct=%.1f client_busy_pct=%.1f server_cpu_foreign_pct=%.1f "
        "client_cpu_foreign_pct=%.1f\n",
        mode_names[options->mode], options->connections, options->size,
        (unsigned long long)answered, wall / 1e6, (double)answered / wall * 1e9,
        server / count / 1e3, 100 * server / wall, 100 * own / wall,
        100 * (on_server_cpu - server) / wall, 100 * (on_client_cpu - own) / wall);
}

static void run(struct client *client) {
    const struct options *options = &client->options;
    struct edge from = edge_read(options);
    uint64_t before = 0;
    if (options->lock_step) {
        lock_step(client);
    } else if (options->requests) {
        ask_all(client);
        turn_until(client, UINT64_MAX);
    } else {
        ask_all(client);
        turn_until(client, now_ns() + (uint64_t)(options->warm_ms * 1e6));
        before = client->answered;
        from = edge_read(options);
        turn_until(client, from.wall + (uint64_t)(options->seconds * 1e9));
    }
    struct edge to = edge_read(options);
    report(options, client->answered - before, &from, &to);
}

static _Noreturn void usage(void) {
    fputs("usage: spin_client --connect IP:PORT --mode MODE --connections N\n"
          "                   --size BYTES\n"
          "                   (--seconds S [--warm-ms MS] | --requests N [--lock-step])\n"
          "                   [--server-pid PID] [--server-cpu N] [--client-cpu N]\n",
          stderr);
    exit(2);
}

static bool mode_parse(const char *text, enum mode *mode) {
    for (int i = MODE_LONG; i < MODES; i++) {
        if (!strcmp(text, mode_names[i])) {
            *mode = (enum mode)i;
            return true;
        }
    }
    return false;
}

static void options_parse(int argc, char **argv, struct options *options) {
    static const struct option flags[] = {
        {"connect", 1, NULL, 'a'},    {"mode", 1, NULL, 'm'},       {"connections", 1, NULL, 'c'},
        {"size", 1, NULL, 's'},       {"seconds", 1, NULL, 'd'},    {"warm-ms", 1, NULL, 'w'},
        {"requests", 1, NULL, 'n'},   {"lock-step", 0, NULL, 'l'},  {"server-pid", 1, NULL, 'p'},
        {"server-cpu", 1, NULL, 'S'}, {"client-cpu", 1, NULL, 'C'}, {0}};
    *options = (struct options){.connections = 1, .size = 12, .warm_ms = 50, .client_cpu = 1};
    bool good = true;
    for (int flag; good && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        switch (flag) {
        case 'a': good = peer_address_parse(optarg, &options->address); break;
        case 'm': good = mode_parse(optarg, &options->mode); break;
        case 'c': options->connections = (unsigned)strtoul(optarg, NULL, 10); break;
        case 's': options->size = strtoul(optarg, NULL, 10); break;
        case 'd': options->seconds = strtod(optarg, NULL); break;
        case 'w': options->warm_ms = strtod(optarg, NULL); break;
        case 'n': options->requests = strtoull(optarg, NULL, 10); break;
        case 'l': options->lock_step = true; break;
        case 'p': options->server_pid = atoi(optarg); break;
        case 'S': options->server_cpu = atoi(optarg); break;
        case 'C': options->client_cpu = atoi(optarg); break;
        default: good = false;
        }
    }
    bool bounded = (options->seconds > 0) != (options->requests > 0);
    bounded = bounded && (options->requests || !options->lock_step);
    if (!good || optind != argc || !options->address.sin_port || !options->connections ||
        !bounded || !options->size || options->size > WIRE_BUFFER_BYTES - WIRE_HEAD_BYTES)
        usage();
}

int main(int argc, char **argv) {
    static struct client client;
    options_parse(argc, argv, &client.options);
    client.epoll = epoll_create1(EPOLL_CLOEXEC);
    client.conns = calloc(client.options.connections, sizeof *client.conns);
    if (client.epoll < 0 || !client.conns)
        peer_die("setup");
    messages_init(&client);
    for (unsigned i = 0; !is_short(&client) && i < client.options.connections; i++)
        conn_open(&client, &client.conns[i]);
    run(&client);
    free(client.request);
    free(client.answer);
    free(client.conns);
    return 0;
}
