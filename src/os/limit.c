#include "os/limit.h"
#include "os/fault.h"
#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>

int weir__os_limit_files(uint64_t *soft, uint64_t *hard) {
    struct rlimit r;
    int rc = weir__os_fault(WEIR__OS_LIMIT, NULL);
    if (rc < 0)
        return rc;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return -errno;
    *soft = r.rlim_cur;
    *hard = r.rlim_max;
    return 0;
}

int weir__os_limit_files_raise(uint64_t want, uint64_t *now) {
    uint64_t soft, hard;
    int rc = weir__os_limit_files(&soft, &hard);
    if (rc < 0)
        return rc;
    if (want == 0 || want > hard)
        want = hard;
    if (want > soft) {
        struct rlimit r = {.rlim_cur = want, .rlim_max = hard};
        rc = weir__os_fault(WEIR__OS_LIMIT, NULL);
        if (rc == 0 && setrlimit(RLIMIT_NOFILE, &r) < 0)
            rc = -errno;
        soft = rc < 0 ? soft : want;
    }
    if (now)
        *now = soft;
    return rc;
}
