/* memory.c: guarded memory. Each tensor lies in its own arena between two inaccessible zones; what the kernel does not
 * own is poisoned. No mprotect and no large memset per case: only what a case uses is written and checked. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker.h"

/* A multiple of every page size in use. Wide, so that a kernel that strays by whole rows still hits it. */
static const size_t GUARD_BYTES = 256 * 1024;
/* Poisoned and checked on the side of the storage that no guard zone protects. */
static const size_t MARGIN_BYTES = 1024;
static const size_t SMALLEST_ARENA = 64 * 1024;
/* Arenas and images beyond this are given back after the case: many workers run the same large case at once. */
static const size_t KEEP_BYTES = 16 * 1024 * 1024;

static arena arenas[MAX_TENSORS];
static buffer images[MAX_TENSORS];

static void unmap(arena *a) {
    if (a->mapping != NULL) munmap(a->mapping, a->mapped);
    memset(a, 0, sizeof *a);
}

static bool fit(arena *a, size_t bytes) {
    if (a->size >= bytes) return true;
    unmap(a);
    size_t size = SMALLEST_ARENA;
    while (size < bytes) size *= 2;
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *mapping = mmap(NULL, size + 2 * GUARD_BYTES, PROT_NONE, kind, -1, 0);
    if (mapping == MAP_FAILED) return false;
    *a = (arena){mapping, size + 2 * GUARD_BYTES, mapping + GUARD_BYTES, size};
    if (mprotect(a->base, size, PROT_READ | PROT_WRITE) == 0) return true;
    unmap(a);
    return false;
}

/* Addresses are even (every element is), so a 16-bit pattern may be stored eight bytes at a time. */
static void poison_bytes(uint8_t *start, uint8_t *end, uint16_t poison) {
    const uint64_t pattern = poison * 0x0001000100010001u;
    for (; end - start >= 8; start += 8) memcpy(start, &pattern, 8);
    memcpy(start, &pattern, (size_t)(end - start));
}

static bool still_poison(const uint8_t *start, const uint8_t *end, uint16_t poison) {
    if (end - start < 2) return true;
    return memcmp(start, &poison, 2) == 0 && memcmp(start, start + 2, (size_t)(end - start) - 2) == 0;
}

bool margins_intact(const tensor *t) {
    return still_poison(t->low, t->storage, t->gap) && still_poison(t->storage + t->storage_bytes, t->high, t->gap);
}

static bool position(tensor *t, arena *a) {
    const size_t slack = (size_t)t->record->offset * t->itemsize;
    if (!fit(a, MARGIN_BYTES + t->storage_bytes + slack)) return false;
    if (t->record->guard == GUARD_AFTER) {
        t->high = a->base + a->size;
        t->storage = t->high - slack - t->storage_bytes;
        t->low = t->storage - MARGIN_BYTES;
    } else {
        t->low = a->base;
        t->storage = a->base + slack;
        t->high = t->storage + t->storage_bytes + MARGIN_BYTES;
    }
    return true;
}

/* What the storage shall hold at the call, gaps included. A dense tensor needs no copy: it has no gaps. */
static bool make_image(tensor *t, int index, uint16_t output_poison) {
    if (t->dense) {
        t->image = t->bits;
        return true;
    }
    images[index].size = 0;
    uint8_t *image = extend(&images[index], t->storage_bytes);
    if (image == NULL) return false;
    poison_bytes(image, image + t->storage_bytes, t->gap);
    if (t->bits != NULL) scatter(t, t->bits, image);
    else scatter_poison(t, output_poison, image);
    t->image = image;
    return true;
}

static bool place(tensor *t, int index, uint16_t output_poison) {
    if (!measure(t) || !position(t, &arenas[index]) || !make_image(t, index, output_poison)) return false;
    poison_bytes(t->low, t->storage, t->gap);
    poison_bytes(t->storage + t->storage_bytes, t->high, t->gap);
    if (t->image != NULL) memcpy(t->storage, t->image, t->storage_bytes);
    else poison_bytes(t->storage, t->storage + t->storage_bytes, output_poison);
    return true;
}

/* Lays out every tensor afresh. False when there is not enough memory. */
bool place_case(test_case *c, uint16_t output_poison) {
    for (int i = 0; i < c->total; i++) {
        tensor *t = &c->tensors[i];
        if (t->alias == i) {
            if (!place(t, i, output_poison)) return false;
            continue;
        }
        const tensor_record *record = t->record;
        *t = c->tensors[t->alias];
        t->record = record;
    }
    return true;
}

void gather(const tensor *t, uint8_t *out) {
    if (t->dense) memcpy(out, t->storage, t->storage_bytes);
    else collect(t, t->storage, out);
}

/* Puts back what a tensor's elements held before the call, so that what still differs from the image is a gap. */
void restore_elements(const tensor *t) {
    copy_elements(t, t->image, t->storage);
}

const arena *arena_of(const tensor *t) {
    return &arenas[t->alias];
}

void release_memory(void) {
    for (int i = 0; i < MAX_TENSORS; i++) {
        if (arenas[i].size > KEEP_BYTES) unmap(&arenas[i]);
        shrink(&images[i]);
    }
}
