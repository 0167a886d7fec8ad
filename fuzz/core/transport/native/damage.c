/* damage.c: what the kernel changed and does not own. The fast answer is "nothing"; the slow path says what. */
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* What was found of one kind in one place. */
typedef struct {
    int tensor, kind;
    int64_t first; /* byte from the start of the tensor's storage */
    uint64_t count;
} found;

static void report(const test_case *c, const found *f, buffer *response) {
    const tensor *t = &c->tensors[f->tensor];
    const int64_t size = (int64_t)t->storage_bytes;
    damage_record record = {.tensor = (uint8_t)f->tensor, .kind = (uint8_t)f->kind, .byte = f->first, .count = f->count};
    record.where = f->first < 0 ? WHERE_BEFORE : f->first < size ? WHERE_INSIDE : WHERE_AFTER;
    if (record.where == WHERE_AFTER) record.byte -= size;
    record.element = nearest_element(t, f->first);
    void *room = extend(response, sizeof record);
    if (room != NULL) memcpy(room, &record, sizeof record);
}

/* Poison before the storage: `first` is the start of the changed element nearest to it. */
static int report_before(const test_case *c, int home, const uint8_t *from, const uint8_t *to, buffer *response) {
    const tensor *t = &c->tensors[home];
    const uint16_t gap = region_of(t)->gap;
    const int64_t size = (int64_t)t->itemsize;
    found f = {.tensor = home, .kind = KIND_GAP};
    for (const uint8_t *p = from; p < to; p++) {
        if (*p == (uint8_t)((uintptr_t)p % 2 == 0 ? gap : gap >> 8)) continue;
        f.first = p - t->storage;
        f.count++;
    }
    if (f.count == 0) return 0;
    if (f.first < 0) f.first = -((-f.first + size - 1) / size * size);
    report(c, &f, response);
    return 1;
}

static int report_after(const test_case *c, int home, const uint8_t *from, const uint8_t *to, buffer *response) {
    const tensor *t = &c->tensors[home];
    const uint16_t gap = region_of(t)->gap;
    found f = {.tensor = home, .kind = KIND_GAP};
    for (const uint8_t *p = from; p < to; p++) {
        if (*p == (uint8_t)((uintptr_t)p % 2 == 0 ? gap : gap >> 8)) continue;
        if (f.count++ == 0) f.first = p - t->storage;
    }
    if (f.count > 0) report(c, &f, response);
    return f.count > 0;
}

/* Marks whose element each byte of the span is: 0 nobody's, else the index of the tensor plus one. */
static void mark_owners(const test_case *c, int home, uint8_t *owners) {
    const region *r = region_of(&c->tensors[home]);
    for (int i = home; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (t->home != home || (i != home && !t->output)) continue;
        scatter_poison(t, (uint16_t)((i + 1) * 0x0101), owners + (t->storage - r->span));
    }
}

/* Compares [from, to) with the image and sorts what differs by whose it is. */
static void sort_changes(const test_case *c, int home, const window *w, const uint8_t *owners, found *by_owner) {
    const region *r = region_of(&c->tensors[home]);
    for (const uint8_t *p = w->start; p < w->end; p++) {
        const uint8_t expected = r->image != NULL ? r->image[p - r->span]
                                                  : (uint8_t)((uintptr_t)p % 2 == 0 ? r->fill : r->fill >> 8);
        if (*p == expected) continue;
        const int owner = owners[p - r->span];
        found *f = &by_owner[owner];
        if (f->count++ > 0) continue;
        f->tensor = owner == 0 ? home : owner - 1;
        f->kind = owner == 0 ? KIND_GAP : c->tensors[f->tensor].output ? KIND_OUTPUT : KIND_INPUT;
        f->first = p - c->tensors[f->tensor].storage;
    }
}

static int report_found(const test_case *c, const found *by_owner, buffer *response) {
    int count = 0;
    for (int owner = 0; owner <= MAX_TENSORS; owner++) {
        if (by_owner[owner].count == 0) continue;
        report(c, &by_owner[owner], response);
        count++;
    }
    return count;
}

static int report_span(const test_case *c, int home, buffer *response) {
    const region *r = region_of(&c->tensors[home]);
    uint8_t *owners = calloc(r->span_bytes, 1);
    if (owners == NULL) abort(); /* the parent sees a dead worker: damage is never lost silently */
    found by_owner[MAX_TENSORS + 1] = {0};
    mark_owners(c, home, owners);
    sort_changes(c, home, &(window){r->span, r->span + r->span_bytes}, owners, by_owner);
    free(owners);
    return report_found(c, by_owner, response);
}

/* The owners of a sparse span are marked where its image was, once what differs from it is put aside. */
static int report_windows(const test_case *c, int home, buffer *response) {
    const region *r = region_of(&c->tensors[home]);
    found by_owner[MAX_TENSORS + 1] = {0};
    arena owners;
    if (!reserve(&owners, r->arena.size, 0)) abort();
    uint8_t *marks = owners.base + (r->span - r->arena.base);
    for (int i = 0; i < r->window_count; i++) {
        const window *w = &r->windows[i];
        if (!open_range(marks + (w->start - r->span), marks + (w->end - r->span))) abort();
    }
    mark_owners(c, home, marks);
    for (int i = 0; i < r->window_count; i++) sort_changes(c, home, &r->windows[i], marks, by_owner);
    unmap(&owners);
    return report_found(c, by_owner, response);
}

/* What outputs may have written is put back first: only what they may not can differ afterwards. */
static void restore_outputs(const test_case *c, int home) {
    const region *r = region_of(&c->tensors[home]);
    for (int i = home; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (t->home == home && t->output) copy_elements(t, r->image + (t->storage - r->span), t->storage);
    }
}

static bool span_intact(const test_case *c, int home, bool rejected) {
    const tensor *t = &c->tensors[home];
    const region *r = region_of(t);
    const uint8_t *end = r->span + r->span_bytes;
    if (!rejected && r->writable && t->dense && !r->shared && !r->sparse) return true;
    if (r->image == NULL) return still_poison(r->span, end, r->fill);
    if (!rejected) restore_outputs(c, home);
    if (!r->sparse) return same_bytes(r->span, r->image, r->span_bytes);
    for (int i = 0; i < r->window_count; i++) {
        const window *w = &r->windows[i];
        if (memcmp(w->start, r->image + (w->start - r->span), (size_t)(w->end - w->start)) != 0) return false;
    }
    return true;
}

/* Appends one record per kind and place of damage. Call it after the outputs were gathered: it may undo them. A kernel
 * that rejected its input must not have written its outputs either. */
int find_damage(const test_case *c, bool rejected, buffer *response) {
    int count = 0;
    for (int home = 0; home < c->total; home++) {
        if (c->tensors[home].home != home) continue;
        const region *r = region_of(&c->tensors[home]);
        if (r->sparse) {
            if (!span_intact(c, home, rejected)) count += report_windows(c, home, response);
            continue;
        }
        const uint8_t *end = r->span + r->span_bytes;
        if (!still_poison(r->low, r->span, r->gap)) count += report_before(c, home, r->low, r->span, response);
        if (!still_poison(end, r->high, r->gap)) count += report_after(c, home, end, r->high, response);
        if (!span_intact(c, home, rejected)) count += report_span(c, home, response);
    }
    return count;
}
