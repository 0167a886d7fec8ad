/* worker.h: what the parts of the worker share. One process, one thread, one kernel, many cases. */
#ifndef KF_WORKER_H
#define KF_WORKER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "kernelfuzz.h"

enum { MAX_TENSORS = 48, MAX_PARAMS = 48, NAME_BYTES = 32, OP_BYTES = 32 };

/* ---- records of the protocol: little-endian, laid out as Python's struct module packs them with '<' ---- */

enum {
    REQUEST_MAGIC = 0x5152464b,  /* "KFRQ" */
    RESPONSE_MAGIC = 0x5352464b, /* "KFRS" */
    HELLO_MAGIC = 0x4548464b,    /* "KFHE" */
};
enum { GRACE_S = 2 };      /* the limit of a frame is so much longer than that of the parent */
enum { RENEWAL_S = 1 };    /* the timers may have run for so long when a case begins */
enum { BUSY_TIMES = 64 };  /* the wall clock allows this many times a limit: others may have the processor */
enum { FLAG_SECOND_RUN = 1, FLAG_FILL = 2, FILL_KINDS = 8 }; /* times what is filled in: see poison.c */
enum { AUDIT_LAST = 0, AUDIT_EACH = 1 };
enum { NO_ALIAS = 0xff };
enum { GUARD_AFTER = 0, GUARD_BEFORE = 1 };
enum { PARAM_INTEGER = 0, PARAM_FLOAT = 1 };

typedef struct {
    uint32_t magic, count; /* cases in the frame */
    uint64_t bytes;        /* of the cases, after this header */
    uint32_t limit_s;      /* no case takes longer than this, less GRACE_S, or the worker's parent is gone */
    uint32_t audits;       /* AUDIT_LAST or AUDIT_EACH: after which cases the process is looked at */
} frame_header;

typedef struct {
    uint32_t bytes; /* of the whole record, this header included */
    uint8_t flags, params, inputs, outputs;
    char op[OP_BYTES];
} case_header;

typedef struct {
    char name[NAME_BYTES];
    uint32_t kind, reserved;
    union {
        int64_t integer;
        double real;
    } value;
} param;

typedef struct {
    char name[NAME_BYTES];
    uint8_t dtype, rank, guard, alias; /* alias: index of the input whose memory is used */
    uint32_t reserved;
    int64_t offset; /* elements between the storage and the guard page */
    uint64_t bytes; /* of the logical elements; for an input they follow the descriptors */
    int64_t shape[KF_MAX_RANK];
    int64_t strides[KF_MAX_RANK];
} tensor_record;

typedef struct {
    uint32_t magic, index, bytes; /* index of the case in its frame; bytes after this header */
    uint8_t status, access, signal;
    int8_t tensor;
    int64_t element, byte; /* flat logical index of the nearest element of the tensor */
    uint16_t damages, unwrittens;
    int32_t code; /* what the kernel returned */
    uint32_t changes, reserved; /* bytes of text at the end: what of the process the kernel left changed */
} response_header;

enum { RAN = 0, RETURNED_REJECTED = 1, FAULTED = 2, NO_MEMORY = 3, MISREAD = 7 };
#define UNKNOWN_BYTE INT64_MIN
enum { KIND_GAP = 0, KIND_INPUT = 1, KIND_OUTPUT = 2 };
enum { WHERE_BEFORE = 0, WHERE_INSIDE = 1, WHERE_AFTER = 2 };

typedef struct {
    uint8_t tensor, kind, where, reserved[5];
    int64_t element, byte;
    uint64_t count;
} damage_record;

typedef struct {
    uint64_t output, first, count;
} unwritten_record;

/* ---- a case while it is being run ---- */

typedef struct {
    const tensor_record *record;
    const uint8_t *bits;  /* an input's logical elements, in the request; NULL for an output */
    size_t itemsize, count;
    int64_t lowest;       /* element offset of the storage's first element from element [0, ..., 0]; <= 0 */
    size_t storage_bytes;
    bool dense;           /* C order without gaps: the storage is the logical elements */
    bool output;
    int home;             /* index of the tensor in whose region this one lies; its own index when it has its own */
    bool exact;           /* lies at home's own elements, one by one; else it may overlap them in part */
    uint8_t *storage;
} tensor;

/* Memory between two inaccessible zones. */
typedef struct {
    uint8_t *mapping;
    size_t mapped;
    uint8_t *base;
    size_t size;
} arena;

typedef struct {
    uint8_t *start, *end;
} window;

enum { MAX_WINDOWS = 256 };

/* Where a tensor lies, together with the outputs that lie in its memory. The span reaches from the first to the last byte
 * of their storages. A span too large for memory is sparse: only windows around the elements are accessible. */
typedef struct {
    arena arena;
    uint8_t *span;
    size_t span_bytes;
    uint8_t *low, *high;  /* ends of what is poisoned and checked; windows instead where sparse */
    const uint8_t *image; /* what the span held when the kernel was called; NULL for nothing but `fill` */
    uint16_t gap, fill;   /* poison of everything around and between the elements, and of outputs */
    bool shared;          /* some output lies in it that is not exactly at home's elements */
    bool writable;        /* home's own elements are an output's */
    bool sparse;
    window windows[MAX_WINDOWS];
    int window_count;
    arena twin;           /* where sparse: the mapping that holds the image */
} region;

typedef struct {
    const case_header *header;
    const param *params;
    tensor tensors[MAX_TENSORS]; /* inputs, then outputs */
    int inputs, total;
} test_case;

typedef struct {
    uint8_t *data;
    size_t size, capacity;
} buffer;

/* frames.c */
_Noreturn void broken_frame(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool read_frame(buffer *frame);
void parse_case(const uint8_t *record, test_case *out);
void *extend(buffer *b, size_t bytes);
void shrink(buffer *b);
const param *find_param(const test_case *c, const char *name);
int normalised_axis(const test_case *c);

/* channel.c */
void open_protocol(int in, int out);
bool read_exactly(void *to, size_t bytes, bool may_end);
void write_all(const void *data, size_t bytes);
void open_journal(int descriptor);
void begin_case(uint32_t index);
bool journal_answer(const void *data, size_t bytes);
void send_answers(const void *data, size_t bytes);

/* memory.c */
bool place_case(test_case *c, uint16_t output_poison);
void gather(const tensor *t, uint8_t *out);
const region *region_of(const tensor *t);
void release_memory(const test_case *c);
void poison_bytes(uint8_t *start, const uint8_t *end, uint16_t poison);
bool still_poison(const uint8_t *start, const uint8_t *end, uint16_t poison);
bool has_poison(const uint8_t *start, size_t count, size_t itemsize, uint16_t poison);
uint16_t poison_for(const tensor *t, uint16_t poison);
bool same_bytes(const uint8_t *a, const uint8_t *b, size_t bytes);

/* sparse.c */
extern const bool HAS_GUARDS; /* whether what `reserve` leaves around the addresses that it gives is inaccessible */
bool reserve(arena *a, size_t size, size_t guard);
void unmap(arena *a);
bool open_range(uint8_t *start, const uint8_t *end);
bool open_windows(const test_case *c, int home, region *r);

/* strides.c */
extern const int64_t STORAGE_LIMIT;
bool measure(tensor *t);
int64_t element_at(const tensor *t, size_t flat);
void scatter(const tensor *t, const uint8_t *bits, uint8_t *storage);
void scatter_poison(const tensor *t, uint16_t poison, uint8_t *storage);
void collect(const tensor *t, const uint8_t *storage, uint8_t *bits);
void copy_elements(const tensor *t, const uint8_t *from, uint8_t *to);
int64_t nearest_element(const tensor *t, int64_t byte);

/* damage.c */
int find_damage(const test_case *c, bool rejected, buffer *response);

/* keeper.c */
void keep_worker(int in, int out);
void put_process(FILE *out);
void set_guard(uint32_t seconds);
void renew_guard(uint32_t seconds, const struct timespec *now);

/* convention.c */
int kf_enter(int (*kernel)(const void *), const void *call);
#define enter(kernel, call) (fill_stack(), kf_enter((int (*)(const void *))(void (*)(void))(kernel), (call)))
const char *lost_register(void);

/* poison.c */
void find_registers(void);
void choose_fill(const test_case *c, bool again);
void fill_stack(void);
void *fill_fresh(void *block, size_t from, size_t bytes);

/* state.c */
typedef struct {
    size_t heap, mapped;
} memory_use;
void remember_state(void);
void audit_state(void);
void check_floating_point(void);
void check_registers(void);
void forget_changes(void);
const char *noted_changes(size_t *bytes);
memory_use measured_memory(void);
void note_leak(size_t bytes, int calls);

/* faults.c */
extern volatile sig_atomic_t inside_kernel;
extern bool measures_memory;
extern memory_use before_call, after_call;
void catch_faults(void);
void catch_faults_again(void);
void call_guarded(const test_case *c, response_header *response);

/* masks.c */
bool masked_loads_misread(void);
bool is_misread(const void *context);

/* of kernels that are in a library: loads it, and returns why that cannot be called, NULL where it can */
const char *kf_load(void) __attribute__((weak));

/* attest.c */
void attest(void);

/* call.c: what the ops' parts take from a case */
typedef enum { REQUIRED, OPTIONAL } presence;
kf_tensor described(const test_case *c, const char *name, presence wanted);
float real_param(const test_case *c, const char *name);
float real_param_or(const test_case *c, const char *name, float absent);

/* the one part that knows the op, which fuzz/core/adapters/abi.py generates */
extern const char op_name[];
int call_op(const test_case *c);

#endif
