/* System calls without the C library's cancellation points, which cost a threaded program some
 * thirty instructions around every recv, send and wait. Returns the kernel's answer: >= 0 or
 * -errno. */
#ifndef WEIR_OS_RAW_H
#define WEIR_OS_RAW_H
#include "base/compiler.h"
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
WEIR_INLINE long weir__os_raw(long number, long a, long b, long c, long d, long e, long f) {
    long rc;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}
#else
WEIR_INLINE long weir__os_raw(long number, long a, long b, long c, long d, long e, long f) {
    long rc = syscall(number, a, b, c, d, e, f);
    return rc < 0 ? -errno : rc;
}
#endif

#endif
