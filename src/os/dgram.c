#include "os/dgram.h"
#include "os/fault.h"
#include "os/sock.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

#ifndef UDP_SEGMENT /* of Linux 4.18 and 5.0: headers of older distributions end before */
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { ECN_BITS = 3 };

union control { /* aligned for the header it starts with */
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int)) * 2]; /* TOS or traffic class, and a segment size */
};

int weir__os_dgram_setup(int fd, bool gro) {
    int on = 1, domain = 0, rc = weir__os_fault(WEIR__OS_SOCKOPT, NULL);
    socklen_t len = sizeof domain;
    if (rc < 0)
        return rc;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
        return -errno;
    if (domain == AF_INET)
        setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
    else if (domain == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
    else
        return 0;
    if (gro)
        setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
    return 1;
}

/* --- receiving ------------------------------------------------------------------------------- */

static void read_control(struct msghdr *m, struct weir__os_dgram *out) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        int value = 0;
        size_t n = c->cmsg_len - CMSG_LEN(0);
        memcpy(&value, CMSG_DATA(c), n < sizeof value ? n : sizeof value);
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
            out->segment_bytes = (uint16_t)value;
        else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
                 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS))
            out->ecn = (uint8_t)value & ECN_BITS;
    }
}

int weir__os_dgram_recv(int fd, bool ip, uint8_t *buf, size_t each, unsigned max,
                        struct weir__os_dgram *out) {
    struct mmsghdr m[WEIR__OS_DGRAMS_MAX];
    struct iovec part[WEIR__OS_DGRAMS_MAX];
    struct sockaddr_storage from[WEIR__OS_DGRAMS_MAX];
    union control control[WEIR__OS_DGRAMS_MAX];
    int rc;
    max = max < WEIR__OS_DGRAMS_MAX ? max : WEIR__OS_DGRAMS_MAX;
    for (unsigned i = 0; i < max; i++) {
        part[i] = (struct iovec){buf + i * each, each};
        m[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                       .msg_namelen = sizeof from[i],
                                       .msg_iov = &part[i],
                                       .msg_iovlen = 1,
                                       /* elsewhere descriptors could come in it */
                                       .msg_control = ip ? &control[i] : NULL,
                                       .msg_controllen = ip ? sizeof control[i] : 0};
    }
    do {
        rc = weir__os_fault(WEIR__OS_RECV, NULL);
        if (rc == 0 && (rc = recvmmsg(fd, m, max, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL)) < 0)
            rc = -errno;
    } while (rc == -EINTR);
    for (int i = 0; i < rc; i++) {
        out[i] = (struct weir__os_dgram){.n = m[i].msg_len,
                                         .truncated = m[i].msg_hdr.msg_flags & MSG_TRUNC};
        weir__os_addr_from_sys(&from[i], m[i].msg_hdr.msg_namelen, &out[i].peer);
        if (ip)
            read_control(&m[i].msg_hdr, &out[i]);
    }
    return rc;
}

/* --- sending --------------------------------------------------------------------------------- */

static void put_segment(struct msghdr *m, union control *control, uint16_t bytes) {
    memset(control, 0, sizeof *control);
    m->msg_control = control;
    m->msg_controllen = CMSG_SPACE(sizeof bytes);
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof bytes);
    memcpy(CMSG_DATA(c), &bytes, sizeof bytes);
}

int weir__os_dgram_send(int fd, const struct weir__os_dgram_out *out, unsigned n) {
    struct mmsghdr m[WEIR__OS_DGRAMS_OUT_MAX];
    struct sockaddr_storage to[WEIR__OS_DGRAMS_OUT_MAX];
    union control control[WEIR__OS_DGRAMS_OUT_MAX];
    int rc;
    n = n < WEIR__OS_DGRAMS_OUT_MAX ? n : WEIR__OS_DGRAMS_OUT_MAX;
    for (unsigned i = 0; i < n; i++) {
        m[i].msg_hdr = (struct msghdr){.msg_name = &to[i],
                                       .msg_namelen = weir__os_addr_to_sys(out[i].to, &to[i]),
                                       .msg_iov = (struct iovec *)out[i].parts,
                                       .msg_iovlen = out[i].n_parts};
        if (out[i].segment_bytes)
            put_segment(&m[i].msg_hdr, &control[i], out[i].segment_bytes);
    }
    do {
        rc = weir__os_fault(WEIR__OS_SEND, NULL);
        if (rc == 0 && (rc = sendmmsg(fd, m, n, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0)
            rc = -errno;
    } while (rc == -EINTR);
    return rc;
}

bool weir__os_dgram_skips(int rc) {
    switch (-rc) {
    case ECONNREFUSED: /* nobody there: unix at once, IP by an ICMP message about an earlier one */
    case ECONNRESET:
    case EPIPE:
    case ENOENT:
    case EPROTOTYPE:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENONET:
    case EPERM: return true; /* a packet filter */
    default: return false;
    }
}
