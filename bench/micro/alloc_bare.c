/* A bare free list in a library of its own: a call into a library costs about a nanosecond, and
 * what is compared should pay it too. */
#include "alloc_bare.h"
#include <stdlib.h>

struct node {
    struct node *next;
};
static __thread struct node *list __attribute__((tls_model("initial-exec")));

void *bench_bare_get(size_t n) {
    struct node *p = list;
    if (!p)
        return malloc(n);
    list = p->next;
    return p;
}

void bench_bare_put(void *p) {
    ((struct node *)p)->next = list;
    list = p;
}

void bench_bare_forget(void) {
    list = NULL;
}
