#include "os/symbol.h"
#include "os/file.h"
#include "os/memory.h"
#include "os/sock.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OBJECTS_MAX = 64,
    SEGMENTS_MAX = 16,
    SECTIONS_MAX = 1024,
    TABLE_MAX = 256 << 20, /* bytes of symbols or of their names */
    MAPS_MAX = 8 << 20,
};

struct segment { /* what one PT_LOAD of the file says */
    uint64_t offset, bytes, at;
};

struct function {
    uint64_t at, bytes;
    uint32_t name;
};

struct object { /* a mapped file */
    uintptr_t low, high;
    uint64_t offset;
    char *path; /* within maps */
    bool read;  /* its tables were looked for */
    struct segment segments[SEGMENTS_MAX];
    unsigned n_segments;
    struct function *functions; /* by address */
    size_t n_functions, functions_cap;
    char *names;
    size_t names_bytes;
};

struct weir__os_symbols {
    char *maps;
    size_t maps_cap;
    unsigned n;
    struct object objects[OBJECTS_MAX];
};

/* --- what is mapped -------------------------------------------------------------------------- */

static bool hex(char **at, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(*at, &end, 16);
    bool good = end != *at && errno == 0;
    *at = end;
    return good;
}

/* "low-high perms offset dev inode   path" */
bool weir__os_mapping_parse(char *line, struct weir__os_mapping *out) {
    uint64_t low, high, offset;
    char perms[5];
    int used = 0;
    char *at = line;
    if (!hex(&at, &low) || *at++ != '-' || !hex(&at, &high) || *at++ != ' ')
        return false;
    if (sscanf(at, "%4s %n", perms, &used) != 1 || strlen(perms) != 4 || !used)
        return false;
    at += used;
    if (!hex(&at, &offset) || sscanf(at, " %*s %*s%n", &used) != 0)
        return false;
    at += used;
    at += strspn(at, " ");
    *out = (struct weir__os_mapping){.low = (uintptr_t)low,
                                     .high = (uintptr_t)high,
                                     .offset = offset,
                                     .executable = perms[2] == 'x',
                                     .path = at};
    return low < high;
}

static void add_mapping(struct weir__os_symbols *s, char *line) {
    struct weir__os_mapping m;
    if (s->n == OBJECTS_MAX || !weir__os_mapping_parse(line, &m) || !m.executable || !m.path[0])
        return;
    s->objects[s->n++] = (struct object){
        .low = m.low, .high = m.high, .offset = m.offset, .path = line + (m.path - line)};
}

static int read_maps(struct weir__os_symbols *s) {
    int n = -EFBIG;
    for (size_t cap = 64 << 10; n == -EFBIG && cap <= MAPS_MAX; cap *= 2) {
        if (s->maps)
            weir__os_unmap(s->maps, s->maps_cap);
        s->maps_cap = cap;
        s->maps = weir__os_map(cap, 0);
        if (!s->maps)
            return -ENOMEM;
        n = weir__os_file_text("/proc/self/maps", s->maps, cap);
    }
    return n;
}

int weir__os_symbols_new(struct weir__os_symbols **out) {
    struct weir__os_symbols *s = weir__os_map(sizeof *s, 0);
    if (!s)
        return -ENOMEM;
    int rc = read_maps(s);
    if (rc < 0) {
        weir__os_symbols_free(s);
        return rc;
    }
    for (char *line = s->maps, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        add_mapping(s, line);
    }
    *out = s;
    return 0;
}

static void drop_tables(struct object *o) {
    if (o->functions)
        weir__os_unmap(o->functions, o->functions_cap * sizeof *o->functions);
    if (o->names)
        weir__os_unmap(o->names, o->names_bytes);
    o->functions = NULL;
    o->names = NULL;
    o->n_functions = 0;
}

void weir__os_symbols_free(struct weir__os_symbols *s) {
    for (unsigned i = 0; i < s->n; i++)
        drop_tables(&s->objects[i]);
    if (s->maps)
        weir__os_unmap(s->maps, s->maps_cap);
    weir__os_unmap(s, sizeof *s);
}

/* --- an ELF file; nothing in it is believed -------------------------------------------------- */

static bool read_all(int fd, void *out, size_t n, uint64_t off) {
    size_t have = 0;
    while (have < n) {
        ssize_t rc = weir__os_file_read(fd, (char *)out + have, n - have, off + have);
        if (rc <= 0)
            return false;
        have += (size_t)rc;
    }
    return true;
}

/* A zero follows it, so that the last name of a table ends. */
static void *read_new(int fd, uint64_t off, uint64_t bytes, size_t *cap) {
    if (bytes == 0 || bytes > TABLE_MAX)
        return NULL;
    *cap = bytes + 1;
    void *p = weir__os_map(*cap, 0);
    if (p && !read_all(fd, p, bytes, off)) {
        weir__os_unmap(p, *cap);
        p = NULL;
    }
    return p;
}

static bool read_head(int fd, Elf64_Ehdr *h) {
    return read_all(fd, h, sizeof *h, 0) && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
           h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB;
}

static void read_segments(struct object *o, int fd, const Elf64_Ehdr *h) {
    for (unsigned i = 0; i < h->e_phnum && o->n_segments < SEGMENTS_MAX; i++) {
        Elf64_Phdr p;
        if (h->e_phentsize < sizeof p ||
            !read_all(fd, &p, sizeof p, h->e_phoff + (uint64_t)i * h->e_phentsize))
            return;
        if (p.p_type == PT_LOAD)
            o->segments[o->n_segments++] = (struct segment){
                .offset = p.p_offset, .bytes = p.p_filesz, .at = p.p_vaddr};
    }
}

static int by_address(const void *a, const void *b) {
    const struct function *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool is_function(const Elf64_Sym *y, size_t names_bytes) {
    unsigned type = ELF64_ST_TYPE(y->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && y->st_shndx != SHN_UNDEF &&
           y->st_name < names_bytes;
}

static void keep_functions(struct object *o, const Elf64_Sym *all, size_t n) {
    o->functions_cap = n;
    o->functions = weir__os_map(n * sizeof *o->functions, 0);
    if (!o->functions)
        return;
    for (size_t i = 0; i < n; i++)
        if (is_function(&all[i], o->names_bytes))
            o->functions[o->n_functions++] = (struct function){
                .at = all[i].st_value, .bytes = all[i].st_size, .name = all[i].st_name};
    qsort(o->functions, o->n_functions, sizeof *o->functions, by_address);
}

static bool read_table(struct object *o, int fd, const Elf64_Shdr *table, const Elf64_Shdr *text) {
    size_t cap, n = table->sh_size / sizeof(Elf64_Sym);
    Elf64_Sym *all = n ? read_new(fd, table->sh_offset, n * sizeof *all, &cap) : NULL;
    if (!all)
        return false;
    o->names = read_new(fd, text->sh_offset, text->sh_size, &o->names_bytes);
    if (o->names)
        keep_functions(o, all, n);
    weir__os_unmap(all, cap);
    if (!o->n_functions)
        drop_tables(o);
    return o->n_functions > 0;
}

static bool read_sections(struct object *o, int fd, const Elf64_Ehdr *h, uint32_t type) {
    size_t cap, n = h->e_shnum;
    if (h->e_shentsize != sizeof(Elf64_Shdr) || n == 0 || n > SECTIONS_MAX)
        return false;
    Elf64_Shdr *all = read_new(fd, h->e_shoff, n * sizeof *all, &cap);
    bool good = false;
    for (size_t i = 0; all && !good && i < n; i++)
        if (all[i].sh_type == type && all[i].sh_link < n)
            good = read_table(o, fd, &all[i], &all[all[i].sh_link]);
    if (all)
        weir__os_unmap(all, cap);
    return good;
}

/* A program that was replaced on disk is still to be had behind /proc/self/exe. */
static int open_object(const struct object *o) {
    char exe[PATH_MAX];
    const char *path = o->path;
    if (weir__os_file_link("/proc/self/exe", exe, sizeof exe) > 0 && strcmp(exe, path) == 0)
        path = "/proc/self/exe";
    if (path[0] != '/')
        return -ENOENT;
    return weir__os_file_open(AT_FDCWD, path,
                              O_RDONLY | O_NONBLOCK | O_NOCTTY); /* a FIFO by now? */
}

static void read_object(struct object *o) {
    Elf64_Ehdr h;
    o->read = true;
    int fd = open_object(o);
    if (fd < 0)
        return;
    if (read_head(fd, &h)) {
        read_segments(o, fd, &h);
        if (!read_sections(o, fd, &h, SHT_SYMTAB))
            read_sections(o, fd, &h, SHT_DYNSYM);
    }
    weir__os_close(fd);
}

/* --- an address ------------------------------------------------------------------------------ */

/* Where the file's own symbols say this place is; false: in none of its segments. */
static bool linked_at(const struct object *o, uintptr_t pc, uint64_t *at) {
    uint64_t offset = pc - o->low + o->offset;
    for (unsigned i = 0; i < o->n_segments; i++) {
        const struct segment *g = &o->segments[i];
        if (offset >= g->offset && offset - g->offset < g->bytes) {
            *at = offset - g->offset + g->at;
            return true;
        }
    }
    return false;
}

/* The last function that begins at or before `at`; one of no stated length goes on to the next. */
static const struct function *function_at(const struct object *o, uint64_t at) {
    size_t low = 0, high = o->n_functions;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (o->functions[mid].at <= at)
            low = mid + 1;
        else
            high = mid;
    }
    const struct function *f = low ? &o->functions[low - 1] : NULL;
    while (f > o->functions && f[-1].at == f->at && f->bytes == 0)
        f--;
    return f && (f->bytes == 0 || at - f->at < f->bytes) ? f : NULL;
}

static size_t print(char *out, size_t cap, const char *name, bool offset, uint64_t by) {
    int n = offset ? snprintf(out, cap, "%s+0x%llx", name, (unsigned long long)by)
                   : snprintf(out, cap, "%s", name);
    return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}

static struct object *object_at(struct weir__os_symbols *s, uintptr_t pc) {
    for (unsigned i = 0; i < s->n; i++)
        if (pc >= s->objects[i].low && pc < s->objects[i].high)
            return &s->objects[i];
    return NULL;
}

size_t weir__os_symbols_name(struct weir__os_symbols *s, uintptr_t pc, bool offset, char *out,
                             size_t cap) {
    struct object *o = object_at(s, pc);
    uint64_t at = 0;
    if (!o) {
        int n = snprintf(out, cap, "0x%llx", (unsigned long long)pc);
        return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
    }
    if (!o->read)
        read_object(o);
    bool known = linked_at(o, pc, &at);
    const struct function *f = known ? function_at(o, at) : NULL;
    if (f)
        return print(out, cap, o->names + f->name, offset, at - f->at);
    const char *slash = strrchr(o->path, '/');
    return print(out, cap, slash ? slash + 1 : o->path, offset,
                 known ? at : pc - o->low + o->offset);
}
