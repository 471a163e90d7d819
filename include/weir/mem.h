/* Memory: per-loop pools, counted slices, chains of slices and file regions.
 *
 * A weir_mem belongs to one loop (or to the one thread that opened it). Reference counts are plain
 * until weir_slice_share(); what is shared may be released on any thread and finds its way back to
 * the pool it came from. "takes x": on >= 0 the callee owns x and has emptied it; on < 0 x is
 * untouched. */
#ifndef WEIR_MEM_H
#define WEIR_MEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/error.h"
#ifdef __cplusplus
extern "C" {
#endif

struct weir_mem;
struct weir_buf;
struct weir_file;

struct weir_slice { /* one counted reference on a part of a buffer; buf NULL = static storage, {0} =
                       empty */
    uint8_t *p;
    size_t n;
    struct weir_buf *buf;
};

struct weir_part { /* one link of a chain; read it, never write it */
    struct weir_part *next;
    struct weir_slice slice; /* slice.p NULL: a file region of slice.n bytes */
    struct weir_file *file;
    uint64_t file_off;
    struct weir_mem *mem; /* where this link goes back to */
};

struct weir_chain { /* slices and file regions in order; {0} = empty */
    struct weir_part *first, *last;
    uint64_t bytes;
};

enum weir_mem_mode {
    WEIR_MEM_CACHED,  /* blocks from chunks, behind a cache */
    WEIR_MEM_POOLED,  /* from chunks, without a cache */
    WEIR_MEM_UNPOOLED /* every block from the heap, for tools that watch that */
};

enum weir_mem_leaks {
    WEIR_MEM_LEAKS_DEFAULT, /* full in checked builds, otherwise off */
    WEIR_MEM_LEAKS_OFF,
    WEIR_MEM_LEAKS_SAMPLED, /* one allocation of sample_every is watched */
    WEIR_MEM_LEAKS_FULL     /* all are */
};

enum { WEIR_MEM_TOUCHES = 4 };

struct weir_mem_leak {       /* something of a pool that ended which was alive and watched */
    const char *pool, *kind; /* kind: "buffer", "object", "link" */
    size_t bytes;
    const void *site;                      /* the code that allocated it */
    const void *touched[WEIR_MEM_TOUCHES]; /* that referred to it or dropped a reference last,
                                              newest first, then NULL: buffers only */
    bool shared; /* it may be in use elsewhere and go with its last release */
};

/* How a pool is watched while it runs. Any of it makes every allocation take the longer way. */
struct weir_mem_debug {
    size_t size;
    enum weir_mem_leaks leaks;
    uint32_t sample_every; /* [1024] */
    bool poison;           /* free blocks are filled, and verified when they are used again */
    uint32_t guard_min; /* blocks of so many bytes end at a page that nobody may touch; 0: none */
    void (*on_leak)(const struct weir_mem_leak *leak, void *user); /* by whoever ends the pool */
    void *user;
};

struct weir_mem_options {
    size_t size;
    enum weir_mem_mode mode;
    uint32_t chunk_bytes;               /* a power of two, 256 KiB .. 16 MiB [4 MiB] */
    const struct weir_mem_debug *debug; /* copied; NULL: as the build has it */
};

/* Sets a pool up otherwise, before anything is allocated from it. EINVAL: options outside what is
 * documented, or something is alive. Owner thread. */
int weir_mem_configure(struct weir_mem *m, const struct weir_mem_options *options);
/* One line about a leak, with the code as "file+0xoffset (function)", as addr2line takes it.
 * Returns the length it would have, like snprintf. */
int weir_mem_leak_text(const struct weir_mem_leak *leak, char *out, size_t n);

/* A pool for a thread that is not a loop (a producer that fills chains for weir_send). NULL: no
 * memory. Use it on the calling thread only. */
struct weir_mem *weir_mem_open(const char *name);
/* Ends a pool from weir_mem_open. What was shared and still lives keeps its storage until the last
 * release. */
void weir_mem_close(struct weir_mem *m);
/* n zeroed bytes that belong to this pool, or NULL. Owner thread. */
void *weir_mem_new(struct weir_mem *m, size_t n);
/* The same, but nobody has cleaned them. */
void *weir_mem_alloc(struct weir_mem *m, size_t n);
/* Gives back what weir_mem_new or weir_mem_alloc gave. Any thread. NULL is fine. */
void weir_mem_free(void *p);
/* Bytes handed out and not yet returned: buffers, objects and chain links, by capacity. Owner
 * thread. */
uint64_t weir_mem_live(const struct weir_mem *m);

/* A new buffer of at least n bytes as one slice of exactly n. Caller owns out. ENOMEM. */
int weir_slice_new(struct weir_mem *m, size_t n, struct weir_slice *out);
/* A new slice holding a copy of n bytes. Caller owns out. ENOMEM. */
int weir_slice_copy(struct weir_mem *m, const void *data, size_t n, struct weir_slice *out);
/* One more reference, on bytes [off, off + n) of s. Cannot fail; off + n <= s.n is asserted. Caller
 * owns the result. */
struct weir_slice weir_slice_ref(struct weir_slice s, size_t off, size_t n);
/* From now on the count of this buffer is atomic: its slices may go to other threads. Owner thread.
 */
void weir_slice_share(struct weir_slice *s);
/* Drops the reference and empties s. Any thread once shared; otherwise the owner's. Empty slices
 * are fine. */
void weir_slice_release(struct weir_slice *s);

/* Appends s. Takes s. ENOMEM. */
int weir_chain_add(struct weir_mem *m, struct weir_chain *c, struct weir_slice *s);
/* Puts s before everything. Takes s. ENOMEM. */
int weir_chain_prepend(struct weir_mem *m, struct weir_chain *c, struct weir_slice *s);
/* Appends a copy of n bytes, into the room of the last buffer where it is ours alone. ENOMEM: c is
 * as before. */
int weir_chain_write(struct weir_mem *m, struct weir_chain *c, const void *data, size_t n);
/* Appends bytes [off, off + n) of f without reading them; keeps one reference on f per region.
 * ENOMEM. */
int weir_chain_add_file(struct weir_mem *m, struct weir_chain *c, struct weir_file *f, uint64_t off,
                        uint64_t n);
/* Moves everything of src behind dst. Cannot fail; src is empty afterwards. */
void weir_chain_append(struct weir_chain *dst, struct weir_chain *src);
/* Moves the first n bytes (n <= src->bytes) of src behind dst, without copying. ENOMEM (a cut needs
 * one link): nothing moved. */
int weir_chain_move(struct weir_mem *m, struct weir_chain *dst, struct weir_chain *src, uint64_t n);
/* n writable bytes at the end, or NULL (no memory; c unchanged). They count only after commit,
 * which may be of 0 bytes; until then c may end in an empty part. At most one reservation is open.
 */
uint8_t *weir_chain_reserve(struct weir_mem *m, struct weir_chain *c, size_t n);
/* The first n bytes of the last reservation are data now. */
void weir_chain_commit(struct weir_chain *c, size_t n);
/* The first n bytes contiguous, or NULL: fewer are there, the first n hold a file region, or no
 * memory for the copy at a seam. */
const uint8_t *weir_chain_peek(struct weir_mem *m, struct weir_chain *c, size_t n);
/* Copies n bytes from offset off out of c. EINVAL: fewer are there, or a file region lies within.
 */
int weir_chain_read(const struct weir_chain *c, uint64_t off, void *out, size_t n);
/* The first n bytes as one slice; copies only at a seam. Caller owns out. ENOMEM, EINVAL (fewer are
 * there, or a file region): c unchanged. */
int weir_chain_take(struct weir_mem *m, struct weir_chain *c, size_t n, struct weir_slice *out);
/* Drops the first n bytes (n <= c->bytes). */
void weir_chain_drop(struct weir_chain *c, uint64_t n);
/* Shares every buffer in c, so that the chain may go to another thread. Owner thread. */
void weir_chain_share(struct weir_chain *c);
/* Releases everything; c is empty afterwards. */
void weir_chain_fini(struct weir_chain *c);

/* Big-endian fields. get: EINVAL when the chain is shorter. put: appends; ENOMEM. width 1..8 bytes.
 */
int weir_chain_get_be(const struct weir_chain *c, uint64_t off, unsigned width, uint64_t *out);
int weir_chain_put_be(struct weir_mem *m, struct weir_chain *c, unsigned width, uint64_t v);

/* A file as a source of regions: fd is taken over and closed with the last reference. size: its
 * length when opened. NULL: no memory. */
struct weir_file *weir_file_new(struct weir_mem *m, int fd, uint64_t size);
struct weir_file *weir_file_ref(struct weir_file *f);
void weir_file_release(struct weir_file *f);

#ifdef __cplusplus
}
#endif
#endif
