#include "io/gather.h"

static bool message_fits(const struct weir__io_message *m, bool udp) {
    unsigned parts = 0;
    for (const struct weir_part *p = m->chain.first; p; p = p->next)
        if (!p->slice.p || ++parts > WEIR__IO_SEND_SLICES_MAX)
            return false;
    if (m->to.kind == WEIR__ADDR_NONE || m->chain.bytes > WEIR__IO_SEND_BYTES_MAX)
        return false;
    uint64_t segments_max = (uint64_t)m->segment_bytes * WEIR__IO_SEGMENTS_MAX;
    return !m->segment_bytes || (udp && m->chain.bytes <= segments_max);
}

bool weir__io_messages_fit(const struct weir__io_message *m, unsigned n, bool udp) {
    for (unsigned i = 0; i < n && n <= WEIR__IO_MESSAGES_MAX; i++)
        if (!message_fits(&m[i], udp))
            return false;
    return n > 0 && n <= WEIR__IO_MESSAGES_MAX;
}

bool weir__io_fds_fit(const struct weir__io_fds *m) {
    return m->n > 0 && m->n <= WEIR__IO_FDS_BYTES_MAX && m->n_handles <= WEIR__IO_HANDLES_MAX;
}
