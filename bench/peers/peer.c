#include "peer.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

_Noreturn void peer_die(const char *what) {
    perror(what);
    exit(1);
}

static _Noreturn void usage(const char *program) {
    fprintf(stderr,
            "usage: %s [--listen IP:PORT] [--work echo|linkd|digest] [--trigger lt|et]\n"
            "Not every peer can do every work; port 0 takes a free one, which is printed.\n",
            program);
    exit(2);
}

bool peer_address_parse(const char *text, struct sockaddr_in *address) {
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end || port > UINT16_MAX)
        return false;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

static unsigned work_parse(const char *text) {
    if (!strcmp(text, "echo"))
        return PEER_ECHO;
    if (!strcmp(text, "linkd"))
        return PEER_LINKD;
    return !strcmp(text, "digest") ? PEER_DIGEST : 0;
}

void peer_options_parse(int argc, char **argv, unsigned works, const char *version,
                        struct peer_options *options) {
    static const struct option flags[] = {{"listen", required_argument, NULL, 'l'},
                                          {"work", required_argument, NULL, 'w'},
                                          {"trigger", required_argument, NULL, 't'},
                                          {"version", no_argument, NULL, 'v'},
                                          {0}};
    unsigned work = PEER_ECHO;
    *options = (struct peer_options){0};
    peer_address_parse("127.0.0.1:0", &options->address);
    for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (flag == 'v') {
            puts(version);
            exit(0);
        }
        bool good = false;
        if (flag == 'l') {
            good = peer_address_parse(optarg, &options->address);
        } else if (flag == 'w') {
            work = work_parse(optarg);
            good = work & works;
        } else if (flag == 't') {
            options->edge_triggered = !strcmp(optarg, "et");
            good = options->edge_triggered || !strcmp(optarg, "lt");
        }
        if (!good)
            usage(argv[0]);
    }
    if (optind != argc)
        usage(argv[0]);
    options->work = (enum peer_work)work;
}

int peer_bind(const struct peer_options *options) {
    signal(SIGPIPE, SIG_IGN);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        peer_die("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    peer_nodelay(fd); /* accepted sockets inherit it, which saves a call for each */
    if (bind(fd, (const struct sockaddr *)&options->address, sizeof options->address))
        peer_die("bind");
    return fd;
}

void peer_announce(int listener) {
    struct sockaddr_in bound;
    socklen_t bytes = sizeof bound;
    char host[INET_ADDRSTRLEN];
    if (getsockname(listener, (struct sockaddr *)&bound, &bytes))
        peer_die("getsockname");
    inet_ntop(AF_INET, &bound.sin_addr, host, sizeof host);
    printf("listening on %s:%u\n", host, ntohs(bound.sin_port));
    fflush(stdout);
}

void peer_nodelay(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}
