#include "os/entropy.h"
#include "os/fault.h"
#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

int weir__os_entropy(void *out, size_t n) {
    uint8_t *p = out;
    while (n > 0) {
        ssize_t got = weir__os_fault(WEIR__OS_ENTROPY, NULL);
        if (got == 0 && (got = getrandom(p, n, 0)) < 0)
            got = -errno;
        if (got < 0 && got != -EINTR)
            return (int)got;
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
    return 0;
}
