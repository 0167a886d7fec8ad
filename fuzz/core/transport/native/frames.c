/* frames.c: what is in frames. One is read whole before any of its cases runs. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker.h"

enum { EXIT_BROKEN_FRAME = 70 };
static const uint64_t FRAME_LIMIT = (uint64_t)1 << 31;
static const size_t KEEP_BYTES = 16 * 1024 * 1024;

_Noreturn void broken_frame(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("kernelfuzz worker: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(EXIT_BROKEN_FRAME);
}

/* Room for `bytes` more at the end of b; NULL when there is no memory. Earlier addresses into b become invalid. */
void *extend(buffer *b, size_t bytes) {
    if (b->size + bytes > b->capacity) {
        size_t capacity = b->capacity < 4096 ? 4096 : b->capacity;
        while (capacity < b->size + bytes) capacity *= 2;
        uint8_t *data = realloc(b->data, capacity);
        if (data == NULL) return NULL;
        b->data = data;
        b->capacity = capacity;
    }
    void *room = b->data + b->size;
    b->size += bytes;
    return room;
}

/* Empties b, and gives large memory back. */
void shrink(buffer *b) {
    b->size = 0;
    if (b->capacity <= KEEP_BYTES) return;
    free(b->data);
    *b = (buffer){0};
}

static void check_records(const buffer *frame, const frame_header *head) {
    size_t at = sizeof *head;
    for (uint32_t i = 0; i < head->count; i++) {
        case_header record;
        if (frame->size - at < sizeof record) broken_frame("broken frame: case %u is cut off", i);
        memcpy(&record, frame->data + at, sizeof record);
        if (record.bytes < sizeof record || record.bytes % 8 != 0 || record.bytes > frame->size - at)
            broken_frame("broken frame: case %u claims %u bytes", i, record.bytes);
        at += record.bytes;
    }
    if (at != frame->size) broken_frame("broken frame: %zu bytes after the last case", frame->size - at);
}

/* Reads one whole frame, header included. False when the parent has closed the stream. */
bool read_frame(buffer *frame) {
    frame_header head;
    if (!read_exactly(&head, sizeof head, true)) return false;
    if (head.magic != REQUEST_MAGIC) broken_frame("broken frame: magic %08x", head.magic);
    if (head.bytes > FRAME_LIMIT) broken_frame("broken frame: %llu bytes", (unsigned long long)head.bytes);
    shrink(frame);
    uint8_t *room = extend(frame, sizeof head + head.bytes);
    if (room == NULL) broken_frame("no memory for a frame of %llu bytes", (unsigned long long)head.bytes);
    memcpy(room, &head, sizeof head);
    read_exactly(room + sizeof head, head.bytes, false);
    check_records(frame, &head);
    return true;
}

const param *find_param(const test_case *c, const char *name) {
    for (int i = 0; i < c->header->params; i++)
        if (strncmp(c->params[i].name, name, NAME_BYTES) == 0) return &c->params[i];
    return NULL;
}

static size_t itemsize_of(const tensor_record *record) {
    static const uint8_t sizes[] = {KF_ITEMSIZES};
    if (record->dtype == 0 || record->dtype > sizeof sizes) broken_frame("broken frame: dtype %u", record->dtype);
    return sizes[record->dtype - 1];
}

static bool same_place(const tensor_record *a, const tensor_record *b) {
    return a->rank == b->rank && a->offset == b->offset && memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

static void parse_tensor(test_case *c, int index, const tensor_record *record) {
    if (record->rank > KF_MAX_RANK) broken_frame("broken frame: rank %u", record->rank);
    if (record->offset < 0) broken_frame("broken frame: offset %lld", (long long)record->offset);
    uint64_t count = 1;
    for (int axis = 0; axis < record->rank; axis++) {
        if (record->shape[axis] < 0) broken_frame("broken frame: extent %lld", (long long)record->shape[axis]);
        if (__builtin_mul_overflow(count, (uint64_t)record->shape[axis], &count)) broken_frame("broken frame: shape");
    }
    tensor *t = &c->tensors[index];
    *t = (tensor){
        .record = record,
        .itemsize = itemsize_of(record),
        .output = index >= c->inputs,
        .home = index,
        .exact = true,
    };
    if (record->bytes != count * t->itemsize) broken_frame("broken frame: %s has a wrong size", record->name);
    if (record->alias == NO_ALIAS) return;
    if (record->alias >= index || record->alias >= c->inputs) broken_frame("broken frame: alias %u", record->alias);
    const tensor *home = &c->tensors[c->tensors[record->alias].home];
    t->home = (int)(home - c->tensors);
    t->exact = same_place(record, home->record);
    if (record->guard != home->record->guard || record->dtype != home->record->dtype || !(t->exact || t->output))
        broken_frame("broken frame: %.32s cannot lie in the memory of tensor %u", record->name, record->alias);
}

/* Resolves one record. The pointers of `out` point into it. */
void parse_case(const uint8_t *record, test_case *out) {
    const case_header *head = (const case_header *)record;
    out->header = head;
    out->params = (const param *)(head + 1);
    out->inputs = head->inputs;
    out->total = head->inputs + head->outputs;
    if (head->params > MAX_PARAMS || out->total > MAX_TENSORS)
        broken_frame("broken frame: too many tensors or parameters");
    if (strncmp(head->op, op_name, OP_BYTES) != 0) broken_frame("broken frame: this worker runs %s, not %.32s", op_name, head->op);
    const tensor_record *tensors = (const tensor_record *)(out->params + head->params);
    const uint8_t *data = (const uint8_t *)(tensors + out->total), *end = record + head->bytes;
    if (data > end) broken_frame("broken frame: descriptors are cut off");
    for (int i = 0; i < out->total; i++) {
        parse_tensor(out, i, &tensors[i]);
        if (i >= out->inputs) continue;
        out->tensors[i].bits = data;
        if (tensors[i].bytes > (uint64_t)(end - data))
            broken_frame("broken frame: data of %.32s is cut off", tensors[i].name);
        data += (tensors[i].bytes + 7) / 8 * 8;
    }
    if (data != end) broken_frame("broken frame: data of a wrong size");
}
