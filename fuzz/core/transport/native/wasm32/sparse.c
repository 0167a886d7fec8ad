/* sparse.c: all memory is accessible here, so that a region of which only windows are is refused. */
#include <stdlib.h>
#include <string.h>

#include "../worker.h"

const bool HAS_GUARDS = false;
enum { PAGE_BYTES = 4096 };

void unmap(arena *a) {
    free(a->mapping);
    memset(a, 0, sizeof *a);
}

bool reserve(arena *a, size_t size, size_t guard) {
    size = (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uint8_t *mapping = size + 2 * guard > size ? aligned_alloc(PAGE_BYTES, size + 2 * guard) : NULL;
    if (mapping == NULL) return false;
    *a = (arena){mapping, size + 2 * guard, mapping + guard, size};
    return true;
}

bool open_range(uint8_t *start, const uint8_t *end) {
    (void)start;
    (void)end;
    return true;
}

bool open_windows(const test_case *c, int home, region *r) {
    (void)c;
    (void)home;
    (void)r;
    return false;
}
