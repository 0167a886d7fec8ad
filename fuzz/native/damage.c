/* damage.c: what the kernel changed and does not own. The fast answer is "nothing"; the slow path says what. */
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* For a tensor that the kernel may write, its elements are put back first: only gaps can differ afterwards. */
static bool storage_intact(const tensor *t) {
    if (t->writable && t->dense) return true;
    if (t->writable) restore_elements(t);
    return t->storage_bytes == 0 || memcmp(t->storage, t->image, t->storage_bytes) == 0;
}

static void report(const test_case *c, int index, damage_record found, buffer *response) {
    const tensor *t = &c->tensors[index];
    int64_t nearest = found.byte;
    if (found.where == WHERE_AFTER) nearest += (int64_t)t->storage_bytes;
    found.tensor = (uint8_t)index;
    found.element = nearest_element(t, nearest);
    void *record = extend(response, sizeof found);
    if (record != NULL) memcpy(record, &found, sizeof found);
}

/* Poison outside the storage: `byte` is the start of the changed element nearest to the storage. */
static int report_margin(const test_case *c, int index, int where, buffer *response) {
    const tensor *t = &c->tensors[index];
    const uint8_t *end = t->storage + t->storage_bytes;
    const uint8_t *from = where == WHERE_BEFORE ? t->low : end, *to = where == WHERE_BEFORE ? t->storage : t->high;
    const int64_t size = (int64_t)t->itemsize;
    damage_record found = {.kind = KIND_GAP, .where = (uint8_t)where};
    for (const uint8_t *p = from; p < to; p++) {
        const uint8_t expected = (uint8_t)((uintptr_t)p % 2 == 0 ? t->gap : t->gap >> 8);
        if (*p == expected) continue;
        if (where == WHERE_BEFORE || found.count == 0) found.byte = where == WHERE_BEFORE ? p - t->storage : p - end;
        found.count++;
    }
    if (found.count == 0) return 0;
    if (where == WHERE_BEFORE) found.byte = -(-found.byte + size - 1) / size * size;
    report(c, index, found, response);
    return 1;
}

/* Inside the storage, elements and gaps apart. */
static int report_storage(const test_case *c, int index, buffer *response) {
    const tensor *t = &c->tensors[index];
    uint8_t *is_element = calloc(t->storage_bytes, 1);
    if (is_element == NULL) abort(); /* the parent sees a dead worker: damage is never lost silently */
    scatter_poison(t, 0xffff, is_element);
    damage_record gap = {.kind = KIND_GAP, .where = WHERE_INSIDE}, input = {.kind = KIND_INPUT, .where = WHERE_INSIDE};
    for (size_t i = 0; i < t->storage_bytes; i++) {
        if (t->storage[i] == t->image[i]) continue;
        damage_record *found = is_element[i] ? &input : &gap;
        if (found->count++ == 0) found->byte = (int64_t)i;
    }
    free(is_element);
    if (gap.count > 0) report(c, index, gap, response);
    if (input.count > 0) report(c, index, input, response);
    return (gap.count > 0) + (input.count > 0);
}

/* Appends one record per kind and place of damage. Call it after the outputs were gathered: it may undo them. */
int find_damage(const test_case *c, buffer *response) {
    int count = 0;
    for (int i = 0; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (t->alias != i) continue;
        if (!margins_intact(t)) {
            count += report_margin(c, i, WHERE_BEFORE, response);
            count += report_margin(c, i, WHERE_AFTER, response);
        }
        if (!storage_intact(t)) count += report_storage(c, i, response);
    }
    return count;
}
