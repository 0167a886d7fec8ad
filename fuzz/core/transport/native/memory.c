/* memory.c: guarded memory. Each tensor lies in its own region between two inaccessible zones, or in that of an input;
 * what the kernel does not own is poisoned. No mprotect and no large memset per case: only what a case uses is written
 * and checked. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* A multiple of every page size in use. Wide, so that a kernel that strays by whole rows still hits it. */
static const size_t GUARD_BYTES = 256 * 1024;
/* Poisoned and checked on the side of the span that no guard zone protects. */
static const size_t MARGIN_BYTES = 1024;
static const size_t SMALLEST_ARENA = 64 * 1024;
/* Arenas and images beyond this are given back after the case: many workers run the same large case at once. */
static const size_t KEEP_BYTES = 16 * 1024 * 1024;

static region regions[MAX_TENSORS];
static buffer images[MAX_TENSORS];

/* Addresses and sizes are odd only where elements have one byte, and then both bytes of a poison are the same. These loops
 * take 64 bytes at a time and have no exit in the middle: an emulator takes as long for the end of a loop as for 16 bytes. */
typedef uint16_t __attribute__((may_alias, aligned(1))) half;
typedef uint32_t __attribute__((may_alias, aligned(1))) word;
typedef uint64_t __attribute__((may_alias, aligned(1))) wide;
typedef uint64_t __attribute__((vector_size(64), may_alias, aligned(1))) block;

/* The poison as it is put around and into a tensor: where elements have one byte, any may be the first. */
uint16_t poison_for(const tensor *t, uint16_t poison) {
    return t->itemsize == 1 ? (uint16_t)((poison & 0xff) * 0x0101) : poison;
}

static bool any_bit(const block *of) {
    uint64_t found = 0;
    for (size_t i = 0; i < sizeof *of / sizeof found; i++) found |= (*of)[i];
    return found != 0;
}

void poison_bytes(uint8_t *start, const uint8_t *end, uint16_t poison) {
    const block all = poison * 0x0001000100010001u - (block){0};
    for (; end - start >= (ptrdiff_t)sizeof all; start += sizeof all) *(block *)start = all;
    half *at = (half *)start;
    const size_t bytes = (size_t)(end - start);
    for (size_t i = 0; i < bytes / 2; i++) at[i] = poison;
    if (bytes % 2) start[bytes - 1] = (uint8_t)poison;
}

bool still_poison(const uint8_t *start, const uint8_t *end, uint16_t poison) {
    const block all = poison * 0x0001000100010001u - (block){0};
    block changed = {0};
    for (; end - start >= (ptrdiff_t)sizeof all; start += sizeof all) changed |= *(const block *)start ^ all;
    const half *at = (const half *)start;
    const size_t bytes = (size_t)(end - start);
    uint16_t rest = bytes % 2 ? start[bytes - 1] ^ (uint8_t)poison : 0;
    for (size_t i = 0; i < bytes / 2; i++) rest |= at[i] ^ poison;
    return rest == 0 && !any_bit(&changed);
}

/* Whether some element holds it. Half an element of four bytes looks like it every now and then. */
bool has_poison(const uint8_t *start, size_t count, size_t itemsize, uint16_t poison) {
    const uint64_t pattern = poison * 0x0001000100010001u;
    unsigned found = 0;
    if (itemsize == 1) return memchr(start, (uint8_t)poison, count) != NULL;
    if (itemsize == 2) for (size_t i = 0; i < count; i++) found |= ((const half *)start)[i] == poison;
    if (itemsize == 4) for (size_t i = 0; i < count; i++) found |= ((const word *)start)[i] == (uint32_t)pattern;
    if (itemsize == 8) for (size_t i = 0; i < count; i++) found |= ((const wide *)start)[i] == pattern;
    return found != 0;
}

bool same_bytes(const uint8_t *a, const uint8_t *b, size_t bytes) {
    block different = {0};
    for (; bytes >= sizeof different; bytes -= sizeof different, a += sizeof different, b += sizeof different)
        different |= *(const block *)a ^ *(const block *)b;
    uint8_t rest = 0;
    for (size_t i = 0; i < bytes; i++) rest |= a[i] ^ b[i];
    return rest == 0 && !any_bit(&different);
}

static size_t slack_of(const tensor *t) {
    return (size_t)t->record->offset * t->itemsize;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Memory for `bytes`, kept from case to case and grown when needed; for a sparse region only addresses. */
static bool fit(region *r, size_t bytes) {
    arena *a = &r->arena;
    if (r->sparse) {
        unmap(a);
        /* As far as it is wide: an offset that wrapped around is then known for what it is. */
        unmap(&r->twin);
        return reserve(a, bytes, larger(bytes, GUARD_BYTES)) && reserve(&r->twin, a->size, 0);
    }
    if (a->size >= bytes) return true;
    unmap(a);
    size_t size = SMALLEST_ARENA;
    while (size < bytes) size *= 2;
    return reserve(a, size, GUARD_BYTES) && open_range(a->base, a->base + a->size);
}

/* Puts a tensor at its own offset from the guard zone, on the side that the region's home chose. */
static void put(tensor *t, const region *r, int guard) {
    const uint8_t *end = r->arena.base + r->arena.size;
    t->storage = guard == GUARD_AFTER ? (uint8_t *)end - slack_of(t) - t->storage_bytes : r->arena.base + slack_of(t);
}

/* Settles where home and all that lie in its region are, and the span that they make together. */
static bool position(test_case *c, int home, region *r) {
    const int guard = c->tensors[home].record->guard;
    size_t bytes = 0;
    r->shared = r->writable = r->sparse = false;
    for (int i = home; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (t->home != home) continue;
        bytes = larger(bytes, t->storage_bytes + slack_of(t));
        r->shared |= !t->exact;
        r->writable |= t->output && t->exact;
    }
    r->sparse = bytes > (size_t)STORAGE_LIMIT;
    if (!fit(r, bytes + MARGIN_BYTES)) return false;
    uint8_t *first = r->arena.base + r->arena.size, *last = r->arena.base;
    for (int i = home; i < c->total; i++) {
        tensor *t = &c->tensors[i];
        if (t->home != home) continue;
        put(t, r, guard);
        if (t->storage < first) first = t->storage;
        if (t->storage + t->storage_bytes > last) last = t->storage + t->storage_bytes;
    }
    r->span = first;
    r->span_bytes = (size_t)(last - first);
    const size_t beyond = HAS_GUARDS ? 0 : MARGIN_BYTES; /* less than what is left around an arena */
    r->low = guard == GUARD_AFTER ? first - MARGIN_BYTES : r->arena.base - beyond;
    r->high = guard == GUARD_AFTER ? r->arena.base + r->arena.size + beyond : last + MARGIN_BYTES;
    return true;
}

/* Writes what the span shall hold at the call to `image`, which stands for the span's first byte. An element that is both
 * an output's and home's is home's. */
static void draw_image(const test_case *c, int home, const region *r, uint8_t *image) {
    for (int i = home + 1; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (t->home == home && !t->exact) scatter_poison(t, r->fill, image + (t->storage - r->span));
    }
    const tensor *t = &c->tensors[home];
    uint8_t *own = image + (t->storage - r->span);
    if (t->output) scatter_poison(t, r->fill, own);
    else scatter(t, t->bits, own);
}

static bool fill_sparse(const test_case *c, int home, region *r) {
    if (!open_windows(c, home, r)) return false;
    uint8_t *image = r->twin.base + (r->span - r->arena.base);
    for (int i = 0; i < r->window_count; i++) {
        const window *w = &r->windows[i];
        poison_bytes(image + (w->start - r->span), image + (w->end - r->span), r->gap);
    }
    draw_image(c, home, r, image);
    for (int i = 0; i < r->window_count; i++) {
        const window *w = &r->windows[i];
        memcpy(w->start, image + (w->start - r->span), (size_t)(w->end - w->start));
    }
    r->image = image;
    return true;
}

/* A dense tensor alone needs no image: it has no gaps. */
static bool fill_span(const test_case *c, int home, region *r) {
    const tensor *t = &c->tensors[home];
    poison_bytes(r->low, r->span, r->gap);
    poison_bytes(r->span + r->span_bytes, r->high, r->gap);
    if (t->dense && !r->shared) {
        r->image = t->bits;
        if (t->output) poison_bytes(r->span, r->span + r->span_bytes, r->fill);
        else memcpy(r->span, t->bits, r->span_bytes);
        return true;
    }
    images[home].size = 0;
    uint8_t *image = extend(&images[home], r->span_bytes);
    if (image == NULL) return false;
    poison_bytes(image, image + r->span_bytes, r->gap);
    draw_image(c, home, r, image);
    memcpy(r->span, image, r->span_bytes);
    r->image = image;
    return true;
}

/* Lays out every tensor afresh. False when there is not enough memory. */
bool place_case(test_case *c, uint16_t output_poison) {
    enum { FIRST_GAP_POISON = 0x7fc1 }; /* a quiet NaN as f16, bf16, f32 and f64, another one for every tensor */
    for (int i = 0; i < c->total; i++)
        if (!measure(&c->tensors[i])) return false;
    for (int i = 0; i < c->total; i++) {
        if (c->tensors[i].home != i) continue;
        region *r = &regions[i];
        r->gap = poison_for(&c->tensors[i], (uint16_t)(FIRST_GAP_POISON + i));
        r->fill = poison_for(&c->tensors[i], output_poison);
        if (!position(c, i, r)) return false;
        if (!(r->sparse ? fill_sparse(c, i, r) : fill_span(c, i, r))) return false;
    }
    return true;
}

void gather(const tensor *t, uint8_t *out) {
    if (t->dense) memcpy(out, t->storage, t->storage_bytes);
    else collect(t, t->storage, out);
}

const region *region_of(const tensor *t) {
    return &regions[t->home];
}

void release_memory(const test_case *c) {
    for (int i = 0; i < c->total; i++) {
        region *r = &regions[i];
        if (r->sparse || r->arena.size > KEEP_BYTES) unmap(&r->arena);
        unmap(&r->twin);
        r->sparse = false;
        shrink(&images[i]);
    }
}
