/* A counted file behind regions: a descriptor, or a handle of the simulation. */
#ifndef WEIR_MEM_FILE_H
#define WEIR_MEM_FILE_H
#include "weir/mem.h"
#include <stdatomic.h>

struct weir_file {
    _Atomic uint32_t refs; /* always atomic: regions travel between threads */
    int64_t handle;        /* the descriptor, or what weir__mem_file_new was given */
    uint64_t size;         /* when it was opened */
    void (*close)(int64_t handle, void *user);
    void *user;
};

/* A file with one reference whose close function runs with the last one, on whichever thread
 * releases it. NULL: no memory; handle is untouched. Owner of m. */
struct weir_file *weir__mem_file_new(struct weir_mem *m, int64_t handle, uint64_t size,
                                     void (*close)(int64_t handle, void *user), void *user);

#endif
