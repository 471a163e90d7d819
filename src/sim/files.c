#include "sim/files.h"
#include "base/assert.h"
#include "mem/file.h"
#include "mem/raw.h"
#include "weir/error.h"
#include <errno.h>
#include <string.h>

struct content {                 /* of one name; kept while anybody has it open */
    struct weir__base_link link; /* in files.all */
    struct weir__sim_files *files;
    char *path;
    uint8_t *bytes;
    uint64_t n, version, inode;
    bool removed;
    struct weir__base_list opens;
};

struct open_file {               /* what a handle names */
    struct weir__base_link link; /* in content.opens */
    struct content *content;
    struct weir_file *file; /* NULL: not counted yet */
};

static struct weir__sim_files *of(struct weir__loop_files *fs) {
    return container_of(fs, struct weir__sim_files, base);
}

static struct open_file *of_handle(int64_t handle) {
    return (struct open_file *)(intptr_t)handle;
}

/* --- contents -------------------------------------------------------------------------------- */

static struct content *find(const struct weir__sim_files *fs, const char *path) {
    weir__base_list_each(link, &fs->all) {
        struct content *c = container_of(link, struct content, link);
        if (!c->removed && strcmp(c->path, path) == 0)
            return c;
    }
    return NULL;
}

static void content_free(struct content *c) {
    weir__base_list_remove(&c->link);
    weir__mem_raw_free(c->path);
    weir__mem_raw_free(c->bytes);
    weir__mem_raw_free(c);
}

static void *copy(const void *bytes, size_t n) {
    void *p = weir__mem_raw_new(n ? n : 1);
    must(p);
    if (n)
        memcpy(p, bytes, n);
    return p;
}

static struct content *content_new(struct weir__sim_files *fs, const char *path) {
    struct content *c = weir__mem_raw_new(sizeof *c);
    must(c);
    c->files = fs;
    c->path = copy(path, strlen(path) + 1);
    c->inode = weir__iosim_draw(fs->net, UINT32_MAX) + 1;
    weir__base_list_init(&c->opens);
    weir__base_list_push_back(&fs->all, &c->link);
    return c;
}

/* send_file of the simulated door reads what the net was told. */
static void show(struct open_file *o) {
    struct content *c = o->content;
    weir__iosim_file_content(c->files->net, o->file, c->bytes, c->n);
}

void weir__sim_files_put(struct weir__sim_files *fs, const char *path, const void *bytes,
                         size_t n) {
    struct content *c = find(fs, path);
    if (!bytes) {
        if (c)
            c->removed = true;
        if (c && weir__base_list_empty(&c->opens))
            content_free(c);
        return;
    }
    c = c ? c : content_new(fs, path);
    uint8_t *before = c->bytes;
    c->bytes = copy(bytes, n);
    c->n = n;
    c->version++;
    weir__base_list_each(link, &c->opens) {
        struct open_file *o = container_of(link, struct open_file, link);
        if (o->file)
            show(o);
    }
    weir__mem_raw_free(before);
}

unsigned weir__sim_files_fini(struct weir__sim_files *fs) {
    unsigned left = 0;
    weir__base_list_each(link, &fs->all) {
        struct content *c = container_of(link, struct content, link);
        weir__base_list_each(open, &c->opens) left++;
        if (weir__base_list_empty(&c->opens))
            content_free(c);
    }
    return left;
}

/* --- what a loop asks ------------------------------------------------------------------------ */

static bool chance(struct weir__sim_files *fs, uint32_t ppm) {
    return ppm && weir__iosim_draw(fs->net, 1000000) < ppm;
}

static void describe(struct weir__loop_file_op *op, const struct content *c) {
    op->stat = (struct weir__loop_file_stat){
        .size = c->n, .mtime_ns = c->version, .device = 1, .inode = c->inode, .regular = true};
}

static int open_path(struct weir__sim_files *fs, struct weir__loop_file_op *op) {
    struct content *c = find(fs, op->path);
    if (!c)
        return WEIR_ESYS(ENOENT);
    if (op->flags & WEIR__LOOP_FILE_DIRECTORY)
        return WEIR_ESYS(ENOTDIR);
    struct open_file *o = weir__mem_raw_new(sizeof *o);
    if (!o)
        return WEIR_ENOMEM;
    o->content = c;
    weir__base_list_push_back(&c->opens, &o->link);
    op->handle = (intptr_t)o;
    describe(op, c);
    return 0;
}

/* Reads are cut, as anywhere here. */
static int64_t read_some(struct weir__sim_files *fs, struct weir__loop_file_op *op) {
    const struct content *c = of_handle(op->file->handle)->content;
    if (op->off >= c->n || !op->n)
        return 0;
    size_t n = op->n < c->n - op->off ? op->n : (size_t)(c->n - op->off);
    n = weir__iosim_draw(fs->net, 4) ? n : 1 + (size_t)weir__iosim_draw(fs->net, n);
    memcpy(op->p, c->bytes + op->off, n);
    return (int64_t)n;
}

static int64_t run(struct weir__loop_files *base, struct weir__loop_file_op *op) {
    struct weir__sim_files *fs = of(base);
    if (chance(fs, fs->fail_ppm))
        return WEIR_EIO;
    if (op->kind == WEIR__LOOP_FILE_OPEN)
        return open_path(fs, op);
    if (op->kind == WEIR__LOOP_FILE_READ)
        return read_some(fs, op);
    describe(op, of_handle(op->file->handle)->content);
    return 0;
}

static int64_t read_hot(struct weir__loop_files *base, struct weir__loop_file_op *op) {
    struct weir__sim_files *fs = of(base);
    return chance(fs, fs->cold_ppm) ? WEIR_EAGAIN : read_some(fs, op);
}

static void close_file(int64_t handle, void *user) {
    struct open_file *o = of_handle(handle);
    struct content *c = o->content;
    (void)user;
    if (o->file)
        weir__iosim_file_forget(c->files->net, o->file);
    weir__base_list_remove(&o->link);
    weir__mem_raw_free(o);
    if (c->removed && weir__base_list_empty(&c->opens))
        content_free(c);
}

static struct weir_file *wrap(struct weir__loop_files *base, struct weir_mem *m,
                              struct weir__loop_file_op *op) {
    struct open_file *o = of_handle(op->handle);
    (void)base;
    o->file = weir__mem_file_new(m, op->handle, op->stat.size, close_file, NULL);
    if (o->file)
        show(o);
    return o->file;
}

static void drop(struct weir__loop_files *base, int64_t handle) {
    (void)base;
    close_file(handle, NULL);
}

static const struct weir__loop_files_ops ops = {
    .run = run, .read_hot = read_hot, .wrap = wrap, .drop = drop};

void weir__sim_files_init(struct weir__sim_files *fs, struct weir__iosim_net *net,
                          uint32_t cold_ppm, uint32_t fail_ppm) {
    *fs = (struct weir__sim_files){
        .base = {.ops = &ops}, .net = net, .cold_ppm = cold_ppm, .fail_ppm = fail_ppm};
    weir__base_list_init(&fs->all);
}
