/* What AddressSanitizer is told about blocks that nobody owns. */
#ifndef WEIR_MEM_POISON_H
#define WEIR_MEM_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define WEIR__MEM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR__MEM_ASAN 1
#endif
#endif

#ifdef WEIR__MEM_ASAN
#include <sanitizer/asan_interface.h>
#define WEIR__MEM_HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define WEIR__MEM_SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define WEIR__MEM_HIDE(p, n) ((void)(p), (void)(n))
#define WEIR__MEM_SHOW(p, n) ((void)(p), (void)(n))
#endif

#endif
