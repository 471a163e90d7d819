#include "os/entropy.h"
#include "os/fault.h"
#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

int weir__os_entropy(void *out, size_t n) {
    uint8_t *p = out;
    int rc = weir__os_fault(WEIR__OS_ENTROPY, NULL);
    if (rc < 0)
        return rc;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
    return 0;
}
