/* Small words the compiler understands. */
#ifndef WEIR_BASE_COMPILER_H
#define WEIR_BASE_COMPILER_H
#include <stddef.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define WEIR_NOINLINE __attribute__((noinline))
#define WEIR_INLINE static inline __attribute__((always_inline))
#define WEIR_COLD __attribute__((cold, noinline))
#define WEIR_NORETURN __attribute__((noreturn))
#define WEIR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define WEIR_UNUSED __attribute__((unused))
#define WEIR_MUST_USE __attribute__((warn_unused_result))
/* Thread-local storage read on hot paths: no call into the dynamic linker. */
#define WEIR_TLS _Thread_local __attribute__((tls_model("initial-exec")))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The struct of `type` whose member `member` is at p. */
#define container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

#endif
