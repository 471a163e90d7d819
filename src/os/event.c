#include "os/event.h"
#include "os/fault.h"
#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int weir__os_event_new(void) {
    int rc = weir__os_fault(WEIR__OS_EVENT, NULL);
    if (rc < 0)
        return rc;
    rc = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return rc < 0 ? -errno : rc;
}

void weir__os_event_signal(int fd) {
    /* Signal handlers call this: errno stays theirs. EAGAIN means that 2^64 - 2 rings are pending.
     */
    int kept = errno;
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    errno = kept;
}

int weir__os_event_drain(int fd) {
    uint64_t rings;
    ssize_t rc;
    do
        rc = read(fd, &rings, sizeof rings);
    while (rc < 0 && errno == EINTR);
    if (rc < 0)
        return errno == EAGAIN ? 0 : -errno;
    return 1;
}
