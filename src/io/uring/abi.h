/* The io_uring interface of the kernel, as far as this door uses it. Declared here, because the
 * headers of older distributions end before the features that matter; the numbers are ABI and never
 * change. */
#ifndef WEIR_IO_URING_ABI_H
#define WEIR_IO_URING_ABI_H
#include <stdint.h>

enum { SYS_URING_SETUP = 425, SYS_URING_ENTER = 426, SYS_URING_REGISTER = 427 };

enum {
    SETUP_CQSIZE = 1 << 3,
    SETUP_CLAMP = 1 << 4,
    SETUP_R_DISABLED = 1 << 6,
    SETUP_SUBMIT_ALL = 1 << 7,
    SETUP_COOP_TASKRUN = 1 << 8,
    SETUP_TASKRUN_FLAG = 1 << 9,
    SETUP_SINGLE_ISSUER = 1 << 12,
    SETUP_DEFER_TASKRUN = 1 << 13,
    SETUP_NO_SQARRAY = 1 << 16,
};

enum { FEAT_SINGLE_MMAP = 1, FEAT_NODROP = 2, FEAT_SUBMIT_STABLE = 4, FEAT_EXT_ARG = 1 << 8 };
enum { ENTER_GETEVENTS = 1, ENTER_EXT_ARG = 8, ENTER_REGISTERED_RING = 16 };
enum { SQ_CQ_OVERFLOW = 2, SQ_TASKRUN = 4 }; /* in the flags of the submission ring */
enum {
    REGISTER_PROBE = 8,
    REGISTER_ENABLE_RINGS = 12,
    REGISTER_RING_FDS = 20,
    UNREGISTER_RING_FDS = 21,
    REGISTER_PBUF_RING = 22,
};
#define OFF_SQ_RING 0L
#define OFF_SQES 0x10000000L

enum {
    OP_POLL_ADD = 6,
    OP_SENDMSG = 9,
    OP_ACCEPT = 13,
    OP_ASYNC_CANCEL = 14,
    OP_CONNECT = 16,
    OP_SEND = 26,
    OP_RECV = 27,
    OP_SEND_ZC = 47,
    OP_SENDMSG_ZC = 48,
    OPS = 64, /* asked for by a probe */
};

enum { SQE_BUFFER_SELECT = 1 << 5 };
enum { ACCEPT_MULTISHOT = 1, POLL_MULTISHOT = 1 }; /* in ioprio; in len */
enum { RECVSEND_POLL_FIRST = 1, RECV_MULTISHOT = 2, SEND_ZC_REPORT_USAGE = 8 }; /* in ioprio */
enum {
    CQE_BUFFER = 1,
    CQE_MORE = 2, /* this request goes on */
    CQE_SOCK_NONEMPTY = 4,
    CQE_NOTIF = 8, /* the bytes of a zero-copy send are let go */
    CQE_BUF_MORE = 16,
    CQE_BUFFER_SHIFT = 16,
};
#define NOTIF_COPIED 0x80000000u /* in res of a notice */

struct uring_sqe {
    uint8_t opcode, flags;
    uint16_t ioprio;
    int32_t fd;
    uint64_t off; /* connect: length of the address */
    uint64_t addr;
    uint32_t len;
    uint32_t op_flags; /* message flags, accept flags, poll events */
    uint64_t user_data;
    uint16_t buf_group, personality;
    uint32_t file_index;
    uint64_t pad[2];
};

struct uring_cqe {
    uint64_t user_data;
    int32_t res;
    uint32_t flags;
};

struct uring_sq_offsets {
    uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, resv;
    uint64_t user_addr;
};

struct uring_cq_offsets {
    uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, resv;
    uint64_t user_addr;
};

struct uring_params {
    uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, resv[3];
    struct uring_sq_offsets sq_off;
    struct uring_cq_offsets cq_off;
};

struct uring_buf {
    uint64_t addr;
    uint32_t len;
    uint16_t bid, tail; /* the tail of the ring is this field of its first entry */
};

enum { PBUF_INC = 2 };

struct uring_buf_reg {
    uint64_t ring_addr;
    uint32_t ring_entries;
    uint16_t bgid, flags;
    uint32_t min_left; /* incremental: a buffer with less is given up */
    uint32_t resv[5];
};

struct uring_ring_slot { /* of REGISTER_RING_FDS */
    uint32_t offset, resv;
    uint64_t fd;
};

struct uring_probe_op {
    uint8_t op, resv;
    uint16_t flags; /* 1: known */
    uint32_t resv2;
};

struct uring_probe {
    uint8_t last_op, n;
    uint16_t resv;
    uint32_t resv2[3];
    struct uring_probe_op ops[OPS];
};

struct uring_timespec {
    int64_t tv_sec, tv_nsec;
};

struct uring_getevents_arg {
    uint64_t sigmask;
    uint32_t sigmask_sz, min_wait_usec;
    uint64_t ts;
};

_Static_assert(sizeof(struct uring_sqe) == 64, "ABI");
_Static_assert(sizeof(struct uring_cqe) == 16, "ABI");
_Static_assert(sizeof(struct uring_params) == 120, "ABI");
_Static_assert(sizeof(struct uring_buf) == 16, "ABI");
_Static_assert(sizeof(struct uring_buf_reg) == 40, "ABI");
_Static_assert(sizeof(struct uring_getevents_arg) == 24, "ABI");
_Static_assert(sizeof(struct uring_ring_slot) == 16, "ABI");
_Static_assert(sizeof(struct uring_probe) == 16 + 8 * OPS, "ABI");

#endif
