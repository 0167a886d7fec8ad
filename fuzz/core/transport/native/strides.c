/* strides.c: between logical elements in C order and a storage with any strides. */
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* Bytes. A larger storage is not held in memory: it is sparse, and refused as "no memory" unless its elements are few. */
const int64_t STORAGE_LIMIT = (int64_t)1 << 28;
static const int64_t SPARSE_LIMIT = (int64_t)1 << (sizeof(void *) > 4 ? 40 : 26);
static const size_t SPARSE_ELEMENTS = 1 << 16;

static bool is_dense(const tensor *t) {
    int64_t wanted = 1;
    for (int axis = t->record->rank - 1; axis >= 0; axis--) {
        if (t->record->shape[axis] != 1 && t->record->strides[axis] != wanted) return false;
        wanted *= t->record->shape[axis];
    }
    return true;
}

/* Fills in count, lowest, storage_bytes and dense. False when the storage is too large to be tried. */
bool measure(tensor *t) {
    const tensor_record *r = t->record;
    int64_t count = 1, lowest = 0, highest = 0;
    for (int axis = 0; axis < r->rank; axis++) {
        int64_t reach;
        if (__builtin_mul_overflow(count, r->shape[axis], &count)) return false;
        if (r->shape[axis] == 0) continue;
        if (__builtin_mul_overflow(r->shape[axis] - 1, r->strides[axis], &reach)) return false;
        if (__builtin_add_overflow(reach < 0 ? lowest : highest, reach, reach < 0 ? &lowest : &highest)) return false;
        if (highest > SPARSE_LIMIT || lowest < -SPARSE_LIMIT) return false;
    }
    t->count = (size_t)count;
    t->lowest = count == 0 ? 0 : lowest;
    t->storage_bytes = count == 0 ? 0 : (size_t)(highest - lowest + 1) * t->itemsize;
    t->dense = count == 0 || is_dense(t);
    if (r->offset > STORAGE_LIMIT) return false;
    const int64_t bytes = (int64_t)(t->storage_bytes + (size_t)r->offset * t->itemsize);
    return bytes <= STORAGE_LIMIT || (bytes <= SPARSE_LIMIT && t->count <= SPARSE_ELEMENTS);
}

/* Steps through the runs along the last axis. `element` is the run's first element, counted from the storage's. */
typedef struct {
    int64_t index[KF_MAX_RANK];
    int64_t element, length, stride;
    size_t remaining;
} walk;

static walk start_walk(const tensor *t) {
    walk w = {.element = -t->lowest, .length = 1, .stride = 1};
    const int last = t->record->rank - 1;
    if (last >= 0) {
        w.length = t->record->shape[last];
        w.stride = t->record->strides[last];
    }
    w.remaining = t->count == 0 ? 0 : t->count / (size_t)w.length;
    return w;
}

static void next_run(const tensor *t, walk *w) {
    w->remaining--;
    for (int axis = t->record->rank - 2; axis >= 0; axis--) {
        w->element += t->record->strides[axis];
        if (++w->index[axis] < t->record->shape[axis]) return;
        w->element -= t->record->strides[axis] * t->record->shape[axis];
        w->index[axis] = 0;
    }
}

/* Copies `count` elements of `itemsize` bytes; steps count elements. */
static void copy_run(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step, int64_t count,
                     size_t itemsize) {
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)count * itemsize);
        return;
    }
    const int64_t size = (int64_t)itemsize;
    for (int64_t i = 0; i < count; i++) {
        uint8_t *target = to + i * to_step * size;
        const uint8_t *source = from + i * from_step * size;
        if (size == 4) memcpy(target, source, 4);
        else if (size == 2) memcpy(target, source, 2);
        else if (size == 8) memcpy(target, source, 8);
        else *target = *source;
    }
}

void scatter(const tensor *t, const uint8_t *bits, uint8_t *storage) {
    for (walk w = start_walk(t); w.remaining > 0; next_run(t, &w)) {
        copy_run(storage + w.element * (int64_t)t->itemsize, w.stride, bits, 1, w.length, t->itemsize);
        bits += (size_t)w.length * t->itemsize;
    }
}

void scatter_poison(const tensor *t, uint16_t poison, uint8_t *storage) {
    const uint64_t pattern = poison * 0x0001000100010001u;
    const uint8_t *from = (const uint8_t *)&pattern;
    for (walk w = start_walk(t); w.remaining > 0; next_run(t, &w))
        copy_run(storage + w.element * (int64_t)t->itemsize, w.stride, from, 0, w.length, t->itemsize);
}

void collect(const tensor *t, const uint8_t *storage, uint8_t *bits) {
    for (walk w = start_walk(t); w.remaining > 0; next_run(t, &w)) {
        copy_run(bits, 1, storage + w.element * (int64_t)t->itemsize, w.stride, w.length, t->itemsize);
        bits += (size_t)w.length * t->itemsize;
    }
}

void copy_elements(const tensor *t, const uint8_t *from, uint8_t *to) {
    for (walk w = start_walk(t); w.remaining > 0; next_run(t, &w)) {
        const int64_t start = w.element * (int64_t)t->itemsize;
        copy_run(to + start, w.stride, from + start, w.stride, w.length, t->itemsize);
    }
}

/* Place of a logical element, in elements from the start of the storage. */
int64_t element_at(const tensor *t, size_t flat) {
    int64_t element = -t->lowest;
    for (int axis = t->record->rank - 1; axis >= 0; axis--) {
        const size_t extent = (size_t)t->record->shape[axis];
        element += (int64_t)(flat % extent) * t->record->strides[axis];
        flat /= extent;
    }
    return element;
}

/* Flat logical index of the element nearest to byte `byte` of the storage; -1 without elements. Slow; for reports only. */
int64_t nearest_element(const tensor *t, int64_t byte) {
    int64_t best = -1, best_distance = INT64_MAX;
    const int64_t size = (int64_t)t->itemsize;
    for (size_t flat = 0; flat < t->count && best_distance > 0; flat++) {
        const int64_t start = element_at(t, flat) * size;
        const int64_t distance = byte < start ? start - byte : byte >= start + size ? byte - (start + size) + 1 : 0;
        if (distance >= best_distance) continue;
        best_distance = distance;
        best = (int64_t)flat;
    }
    return best;
}
