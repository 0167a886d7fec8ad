/* sparse.c: mappings, and regions of which only windows around the elements are accessible: two rows 2^31 elements apart
 * take two pages. All the rest of such a region is a guard zone. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker.h"

/* Poisoned and checked around every element; what is further away faults. */
static const int64_t NEAR_BYTES = 1024;
const bool HAS_GUARDS = true;
static const size_t OPEN_LIMIT = 16 * 1024 * 1024;

void unmap(arena *a) {
    if (a->mapping != NULL) munmap(a->mapping, a->mapped);
    memset(a, 0, sizeof *a);
}

static size_t whole_pages(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Addresses for `size` bytes between two zones of at least `guard` bytes; all of it inaccessible. */
bool reserve(arena *a, size_t size, size_t guard) {
    size = whole_pages(size);
    guard = whole_pages(guard);
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *mapping = mmap(NULL, size + 2 * guard, PROT_NONE, kind, -1, 0);
    if (mapping == MAP_FAILED) return false;
    *a = (arena){mapping, size + 2 * guard, mapping + guard, size};
    return true;
}

/* Makes whole pages accessible. False when there is not enough memory. */
bool open_range(uint8_t *start, const uint8_t *end) {
    return mprotect(start, (size_t)(end - start), PROT_READ | PROT_WRITE) == 0;
}

/* The pages around `at`, as far as the region goes. */
static window around(const arena *a, const uint8_t *at, size_t itemsize) {
    const int64_t page = sysconf(_SC_PAGESIZE), size = (int64_t)a->size;
    int64_t start = at - a->base - NEAR_BYTES, end = at - a->base + (int64_t)itemsize + NEAR_BYTES;
    start = start < 0 ? 0 : start / page * page;
    end = end > size ? size : (end + page - 1) / page * page;
    return (window){a->base + start, a->base + (end > size ? size : end)};
}

/* Adds a window, or makes those that it touches one with it. */
static bool add(region *r, window w) {
    for (int i = r->window_count - 1; i >= 0; i--) {
        const window other = r->windows[i];
        if (w.end < other.start || other.end < w.start) continue;
        if (w.start >= other.start && w.end <= other.end) return true;
        if (other.start < w.start) w.start = other.start;
        if (other.end > w.end) w.end = other.end;
        r->windows[i] = r->windows[--r->window_count];
    }
    if (r->window_count == MAX_WINDOWS) return false;
    r->windows[r->window_count++] = w;
    return true;
}

/* Opens the region, and its twin alike, around every element that lies in it. False when they are too many. */
bool open_windows(const test_case *c, int home, region *r) {
    r->window_count = 0;
    for (int i = home; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (t->home != home) continue;
        for (size_t flat = 0; flat < t->count; flat++) {
            const uint8_t *at = t->storage + element_at(t, flat) * (int64_t)t->itemsize;
            if (!add(r, around(&r->arena, at, t->itemsize))) return false;
        }
    }
    size_t opened = 0;
    for (int i = 0; i < r->window_count; i++) {
        const window *w = &r->windows[i];
        uint8_t *twin = r->twin.base + (w->start - r->arena.base);
        opened += (size_t)(w->end - w->start);
        if (opened > OPEN_LIMIT || !open_range(w->start, w->end)) return false;
        if (!open_range(twin, twin + (w->end - w->start))) return false;
    }
    return true;
}
