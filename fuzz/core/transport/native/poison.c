/* poison.c: what a kernel may not rely on is filled before it is entered: the registers that are nobody's during a call,
 * the stack below its frame, and the memory that malloc gives it. A kernel that reads one before it has written it is right
 * only where that happens to hold what it needs, most often 0. */
#define _GNU_SOURCE
#include <malloc.h>

#include "machine.h"
#include "worker.h"

/* FILLS of core/base/fill.py: zero, NaN, huge, huge and negative, ordinary, in each dtype of two bytes or more. */
static const uint16_t FILLS[] = {0, 0xfffb, 0x7b7b, 0xfbfb, 0x3f3f};
enum { REGISTERS = 1, STACK = 2, HEAP = 4 }; /* UNSET of core/base/fill.py */
enum { STACK_BYTES = 8 * 1024 };
static const size_t HEAP_BYTES = 1 << 20; /* of one block no more are filled */

__attribute__((used, visibility("hidden"), aligned(64))) uint8_t kf_poison[256]; /* a register of SVE has at most so many */
__attribute__((used, visibility("hidden"))) uint32_t kf_widest;
static uint16_t of_stack, of_heap;

/* Once: to ask may take a signal. */
void find_registers(void) {
    kf_widest = widest_registers();
}

/* What the case asks for; in its second run other values, where it asks for some. */
void choose_fill(const test_case *c, bool again) {
    const unsigned said = c->header->flags / FLAG_FILL, kinds = sizeof FILLS / sizeof *FILLS, cleared = said / FILL_KINDS;
    unsigned kind = said % FILL_KINDS;
    if (kind >= kinds) broken_frame("broken frame: fill %u", kind);
    if (kind > 0 && again) kind = kind % (kinds - 1) + 1;
    of_stack = cleared & STACK ? 0 : FILLS[kind];
    of_heap = cleared & HEAP ? 0 : FILLS[kind];
    poison_bytes(kf_poison, kf_poison + sizeof kf_poison, cleared & REGISTERS ? 0 : FILLS[kind]);
}

/* Called right before the kernel, whose frame then lies where this one does now. */
__attribute__((noinline)) void fill_stack(void) {
    uint8_t dead[STACK_BYTES];
    poison_bytes(dead, dead + sizeof dead, of_stack);
    __asm__ volatile("" : : "r"(dead) : "memory");
}

/* Only for a kernel: what the worker asks for it writes itself. */
void *fill_fresh(void *block, size_t from, size_t bytes) {
    if (block == NULL || !inside_kernel || from >= bytes) return block;
    const size_t end = bytes - from < HEAP_BYTES ? bytes : from + HEAP_BYTES;
    poison_bytes((uint8_t *)block + from, (uint8_t *)block + end, of_heap);
    return block;
}

/* The linker is told to give a kernel these in place of the real ones: see WRAPPED in core/adapters/linking.py. What a shared
 * library is given is in dynamic/malloc.c. */
void *__real_malloc(size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **block, size_t alignment, size_t bytes);
void *__real__Znwm(size_t bytes) __attribute__((weak)); /* of C++, where that is linked */
void *__real__Znam(size_t bytes) __attribute__((weak));

void *__wrap_malloc(size_t bytes) {
    return fill_fresh(__real_malloc(bytes), 0, bytes);
}

void *__wrap_realloc(void *block, size_t bytes) {
    const size_t had = inside_kernel && block != NULL ? malloc_usable_size(block) : 0;
    return fill_fresh(__real_realloc(block, bytes), had, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return fill_fresh(__real_aligned_alloc(alignment, bytes), 0, bytes);
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t bytes) {
    const int failed = __real_posix_memalign(block, alignment, bytes);
    if (!failed) fill_fresh(*block, 0, bytes);
    return failed;
}

void *__wrap__Znwm(size_t bytes) {
    return fill_fresh(__real__Znwm(bytes), 0, bytes);
}

void *__wrap__Znam(size_t bytes) {
    return fill_fresh(__real__Znam(bytes), 0, bytes);
}
