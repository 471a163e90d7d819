/* The delimiter search: a streaming matcher, so that no byte is looked at twice however the input
 * is cut. */
#ifndef WEIR_CODEC_FRAME_SCAN_H
#define WEIR_CODEC_FRAME_SCAN_H
#include "weir/frame.h"
#include <string.h>

/* Feeds n bytes. Returns how many were used: through the last byte of the first delimiter (*found),
 * or all of them. */
static inline size_t weir__frame_scan(const struct weir_frame_format *f, uint8_t *matched,
                                      const uint8_t *p, size_t n, bool *found) {
    size_t i = 0, k = *matched;
    *found = false;
    while (i < n && !*found) {
        if (!k) {
            const uint8_t *hit = memchr(p + i, f->end[0], n - i);
            if (!hit) {
                i = n;
                break;
            }
            i = (size_t)(hit - p) + 1;
            k = 1;
        } else if (p[i] == f->end[k]) {
            i++;
            k++;
        } else {
            k = f->back[k - 1];
        }
        *found = k == f->end_bytes;
    }
    *matched = (uint8_t)(*found ? 0 : k);
    return i;
}

#endif
