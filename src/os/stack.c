#include "os/stack.h"
#include "base/compiler.h"
#include "os/fault.h"
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#define UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))

enum { WORD = sizeof(uintptr_t), LOOK_MAX = 2048 /* words searched for a return address */ };

struct range {
    uintptr_t low, high;
};

static struct range ours[2]; /* the program, and the object this code is in; written once */

int weir__os_stack_bounds(struct weir__os_stack_bounds *out) {
    pthread_attr_t attr;
    void *low;
    size_t n;
    *out = (struct weir__os_stack_bounds){0};
    int rc = weir__os_fault(WEIR__OS_THREAD, NULL);
    if (rc == 0)
        rc = -pthread_getattr_np(pthread_self(), &attr);
    if (rc < 0)
        return rc;
    rc = -pthread_attr_getstack(&attr, &low, &n);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        *out = (struct weir__os_stack_bounds){(uintptr_t)low, (uintptr_t)low + n};
    return rc;
}

/* The executable part of one loaded object; the program itself comes first. */
static int learn_object(struct dl_phdr_info *info, size_t size, void *user) {
    unsigned *seen = user;
    uintptr_t here = (uintptr_t)learn_object;
    bool program = (*seen)++ == 0;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
            continue;
        struct range r = {info->dlpi_addr + h->p_vaddr, info->dlpi_addr + h->p_vaddr + h->p_memsz};
        if (program && !ours[0].high)
            ours[0] = r;
        else if (here >= r.low && here < r.high)
            ours[1] = r;
    }
    return 0;
}

void weir__os_stack_learn(void) {
    unsigned seen = 0;
    if (!ours[0].high)
        dl_iterate_phdr(learn_object, &seen);
}

static bool is_ours(uintptr_t at) {
    return (at >= ours[0].low && at < ours[0].high) || (at >= ours[1].low && at < ours[1].high);
}

UNCHECKED static uintptr_t word_at(uintptr_t at) {
    return *(const volatile uintptr_t *)at;
}

UNCHECKED static uint8_t byte_at(uintptr_t at) {
    return *(const volatile uint8_t *)at;
}

#if defined(__x86_64__)

static void registers(const ucontext_t *c, uintptr_t *pc, uintptr_t *sp, uintptr_t *fp) {
    *pc = (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
    *sp = (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
    *fp = (uintptr_t)c->uc_mcontext.gregs[REG_RBP];
}

/* Does an instruction that calls end at this address of our own code? */
static bool follows_call(uintptr_t at) {
    if (!is_ours(at) || !is_ours(at - 7))
        return false;
    if (byte_at(at - 5) == 0xe8)
        return true;
    for (unsigned n = 2; n <= 7; n++) /* ff /2: through a register or memory */
        if (byte_at(at - n) == 0xff && (byte_at(at - n + 1) & 0x38) == 0x10)
            return true;
    return false;
}

/* A call that is to be restarted has its program counter back on the instruction. */
static bool at_system_call(uintptr_t pc) {
    if ((pc & 4095) < 2 || (pc & 4095) > 4094)
        return false;
    return (byte_at(pc - 2) == 0x0f && byte_at(pc - 1) == 0x05) ||
           (byte_at(pc) == 0x0f && byte_at(pc + 1) == 0x05);
}

#elif defined(__aarch64__)

static void registers(const ucontext_t *c, uintptr_t *pc, uintptr_t *sp, uintptr_t *fp) {
    *pc = (uintptr_t)c->uc_mcontext.pc;
    *sp = (uintptr_t)c->uc_mcontext.sp;
    *fp = (uintptr_t)c->uc_mcontext.regs[29];
}

static uint32_t code_at(uintptr_t at) {
    return (uint32_t)byte_at(at) | (uint32_t)byte_at(at + 1) << 8 |
           (uint32_t)byte_at(at + 2) << 16 | (uint32_t)byte_at(at + 3) << 24;
}

static bool follows_call(uintptr_t at) {
    if (at & 3 || !is_ours(at) || !is_ours(at - 4))
        return false;
    uint32_t code = code_at(at - 4);
    return code >> 26 == 0x25 || (code & 0xfffffc1f) == 0xd63f0000; /* bl, blr */
}

static bool at_system_call(uintptr_t pc) {
    const uint32_t svc = 0xd4000001;
    return !(pc & 3) && ((pc & 4095 && code_at(pc - 4) == svc) || code_at(pc) == svc);
}

#else
#error "stack walking knows x86-64 and aarch64"
#endif

static bool readable(const struct weir__os_stack_bounds *b, uintptr_t at) {
    return !(at & (WORD - 1)) && at >= b->low && at < b->high && b->high - at >= 2 * WORD;
}

static void push(struct weir__os_stack *out, uintptr_t pc) {
    if (out->n < WEIR__OS_STACK_MAX)
        out->pc[out->n++] = pc;
}

/* The first word in [from, to) that is a return address of ours; 0: none. With `record`, only one
 * that a saved frame pointer stands before, and the address of that. */
static uintptr_t find_return(const struct weir__os_stack_bounds *b, uintptr_t from, uintptr_t to,
                             bool record) {
    unsigned looked = 0;
    for (uintptr_t at = from; at < to && looked++ < LOOK_MAX && readable(b, at); at += WORD) {
        if (!follows_call(word_at(record ? at + WORD : at)))
            continue;
        if (!record || (word_at(at) > at && readable(b, word_at(at))))
            return at;
    }
    return 0;
}

/* From foreign code: names the caller of ours that is hidden; returns where the frames go on. */
static uintptr_t past_foreign(const struct weir__os_stack_bounds *b, uintptr_t sp, uintptr_t fp,
                              struct weir__os_stack *out) {
    bool good = fp >= sp && readable(b, fp);
    uintptr_t found = find_return(b, sp, good ? fp : b->high, false);
    if (found)
        push(out, word_at(found));
    if (good || !found)
        return fp;
    return find_return(b, found + WORD, b->high, true);
}

void weir__os_stack_walk(const void *context, const struct weir__os_stack_bounds *b,
                         struct weir__os_stack *out) {
    uintptr_t pc, sp, fp;
    registers(context, &pc, &sp, &fp);
    out->n = 0;
    out->in_call = at_system_call(pc);
    push(out, pc);
    if (!readable(b, sp & ~(uintptr_t)(WORD - 1)))
        return; /* another stack: a signal stack, a coroutine */
    if (!is_ours(pc))
        fp = past_foreign(b, sp, fp, out);
    for (uintptr_t below = sp; fp >= below && readable(b, fp) && out->n < WEIR__OS_STACK_MAX;) {
        uintptr_t back = word_at(fp + WORD);
        if (back < 4096)
            return;
        push(out, back);
        below = fp + 2 * WORD;
        fp = word_at(fp);
    }
}
