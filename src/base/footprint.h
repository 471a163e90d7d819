/* What an idle connection holds of its server's memory: the sum, and who answers for which part.
 *
 * No buffer, no link, no call, no session: those come with the first byte and go with the last.
 * Each line is asserted where its struct is defined; bench/idle.py measures what comes of it.
 *
 *   slot of its ref                                               48
 *   socket at the door (epoll)           16 + 112       in a block of 128
 *   channel, with one context in it      16 + 368 + 128 in a block of 512
 *                                                                 ---
 *                                                                 688 bytes
 *   at the io_uring door the socket is     16 + 168, in a block of 192: 752 bytes
 */
#ifndef WEIR_BASE_FOOTPRINT_H
#define WEIR_BASE_FOOTPRINT_H

enum {
    WEIR__IDLE_HEADER = 16,              /* of a block from the pool */
    WEIR__IDLE_SLOT = 48,                /* struct weir__io_slot */
    WEIR__IDLE_SOCKET = 112,             /* struct weir__epoll_sock */
    WEIR__IDLE_SOCKET_BLOCK = 128,       /* the class of memory that it gets */
    WEIR__IDLE_URING_SOCKET = 168,       /* struct weir__uring_sock */
    WEIR__IDLE_URING_SOCKET_BLOCK = 192, /* of it */
    WEIR__IDLE_CHANNEL = 368,            /* struct weir_chan */
    WEIR__IDLE_STATE = 32,               /* of a linkd server; an echo has none */
    WEIR__IDLE_CONTEXT = 128,            /* struct weir_ctx with it */
    WEIR__IDLE_CHANNEL_BLOCK = 512,
    WEIR__IDLE_MAX = 768, /* in all: three quarters of a KiB */
};
_Static_assert(WEIR__IDLE_HEADER + WEIR__IDLE_SOCKET <= WEIR__IDLE_SOCKET_BLOCK,
               "the socket has outgrown its block");
_Static_assert(WEIR__IDLE_HEADER + WEIR__IDLE_URING_SOCKET <= WEIR__IDLE_URING_SOCKET_BLOCK,
               "the socket has outgrown its block");
_Static_assert(WEIR__IDLE_HEADER + WEIR__IDLE_CHANNEL + WEIR__IDLE_CONTEXT <=
                   WEIR__IDLE_CHANNEL_BLOCK,
               "the channel has outgrown its block");
_Static_assert(WEIR__IDLE_SLOT + WEIR__IDLE_URING_SOCKET_BLOCK + WEIR__IDLE_CHANNEL_BLOCK <=
                   WEIR__IDLE_MAX,
               "an idle connection holds too much");

#endif
