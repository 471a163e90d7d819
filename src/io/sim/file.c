/* Handles, lowest free number first as descriptors are, so that a stale one meets somebody
 * else's file; and what files hold. */
#include "io/sim/net.h"
#include "mem/file.h"
#include <string.h>

struct weir__iosim_file *weir__iosim_file_new(struct weir__iosim_net *net,
                                              struct weir__iosim_end *end,
                                              struct weir__iosim_port *port) {
    struct weir__iosim_file *f = weir__iosim_alloc(net, sizeof *f);
    f->refs = 1;
    f->end = end;
    f->port = port;
    return f;
}

void weir__iosim_file_unref(struct weir__iosim_net *net, struct weir__iosim_file *f, bool abort) {
    (void)net;
    if (--f->refs)
        return;
    if (f->end)
        weir__iosim_end_close(f->end, abort);
    else
        weir__iosim_port_free(f->port);
    weir_mem_free(f);
}

bool weir__iosim_handles_full(struct weir__iosim_net *net) {
    if (!net->opt.emfile_at || net->handles < net->opt.emfile_at)
        return false;
    weir__iosim_fault(net, WEIR__IOSIM_EFDS);
    return true;
}

intptr_t weir__iosim_handle_new(struct weir__iosim_net *net, struct weir__iosim_file *f) {
    uint32_t i = 0;
    while (i < net->n_files && net->files[i])
        i++;
    if (i == net->n_files) {
        net->files = weir__iosim_room(net, net->files, net->n_files, &net->cap_files);
        net->n_files++;
    }
    net->files[i] = f;
    net->handles++;
    return (intptr_t)i + WEIR__IOSIM_HANDLE_MIN;
}

struct weir__iosim_file *weir__iosim_handle_file(struct weir__iosim_net *net, intptr_t handle) {
    intptr_t i = handle - WEIR__IOSIM_HANDLE_MIN;
    return i >= 0 && i < (intptr_t)net->n_files ? net->files[i] : NULL;
}

void weir__iosim_handle_close(struct weir__iosim_net *net, intptr_t handle, bool abort) {
    struct weir__iosim_file *f = weir__iosim_handle_file(net, handle);
    must(f);
    net->files[handle - WEIR__IOSIM_HANDLE_MIN] = NULL;
    net->handles--;
    weir__iosim_file_unref(net, f, abort);
}

/* --- contents -------------------------------------------------------------------------------- */

static struct weir__iosim_content *find(struct weir__iosim_net *net, const struct weir_file *f) {
    weir__base_list_each(link, &net->contents) {
        struct weir__iosim_content *c = container_of(link, struct weir__iosim_content, link);
        if (c->file == f)
            return c;
    }
    return NULL;
}

void weir__iosim_file_content(struct weir__iosim_net *net, const struct weir_file *f,
                              const void *bytes, uint64_t n) {
    struct weir__iosim_content *c = find(net, f);
    if (!c) {
        c = weir__iosim_alloc(net, sizeof *c);
        c->file = f;
        weir__base_list_push_back(&net->contents, &c->link);
    }
    c->bytes = bytes;
    c->n = n;
}

void weir__iosim_file_forget(struct weir__iosim_net *net, const struct weir_file *f) {
    struct weir__iosim_content *c = find(net, f);
    if (c) {
        weir__base_list_remove(&c->link);
        weir_mem_free(c);
    }
}

uint64_t weir__iosim_file_bytes(struct weir__iosim_net *net, const struct weir_file *f) {
    struct weir__iosim_content *c = find(net, f);
    return c ? c->n : f->size;
}

size_t weir__iosim_file_read(struct weir__iosim_net *net, const struct weir_file *f, uint64_t off,
                             uint8_t *out, size_t n) {
    struct weir__iosim_content *c = find(net, f);
    uint64_t size = c ? c->n : f->size;
    if (off >= size)
        return 0;
    if (n > size - off)
        n = (size_t)(size - off);
    if (c) {
        memcpy(out, c->bytes + off, n);
        return n;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(off + i);
    return n;
}
