/* main.c: the worker's loop: read a frame, run each case, answer each case. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

/* Quiet NaNs in every dtype of two bytes or more, and none of the poisons used for gaps. */
enum { OUTPUT_POISON = 0x7ffd, SECOND_OUTPUT_POISON = 0x7ffa };

/* A leak is what each of the first calls keeps, and what so many more keep at least half of: a cache is full by then, or
 * was emptied. Where they would lose more than this in all, fewer tell it too. */
enum { FIRST_CALLS = 9, MORE_CALLS = 3000, LOST_BYTES = 256 << 20 };
/* The time for all calls of a case, the first one included: a quarter of its limit, or a slow one would seem to hang. */
static double allowed_s;

static buffer response, second;

static bool is_poison(const tensor *t, const uint8_t *element, uint16_t poison) {
    const uint64_t pattern = poison_for(t, poison) * 0x0001000100010001u;
    return memcmp(element, &pattern, t->itemsize) == 0;
}

/* The response grows, and may move: outputs are addressed by their place in it. Returns that place. */
static size_t append_outputs(const test_case *c, buffer *to) {
    size_t bytes = 0;
    for (int i = c->inputs; i < c->total; i++) bytes += c->tensors[i].count * c->tensors[i].itemsize;
    const size_t place = to->size;
    if (extend(to, bytes) == NULL) broken_frame("no memory for an answer");
    uint8_t *at = to->data + place;
    for (int i = c->inputs; i < c->total; i++) {
        gather(&c->tensors[i], at);
        at += c->tensors[i].count * c->tensors[i].itemsize;
    }
    return place;
}

/* Elements of output `index` that hold the first poison in `first` and, given `again`, the second poison there. */
static unwritten_record find_unwritten(const tensor *t, int index, const uint8_t *first, const uint8_t *again) {
    unwritten_record found = {.output = (uint64_t)index};
    if (!has_poison(first, t->count, t->itemsize, poison_for(t, OUTPUT_POISON))) return found;
    for (size_t i = 0; i < t->count; i++) {
        const size_t at = i * t->itemsize;
        if (!is_poison(t, first + at, OUTPUT_POISON)) continue;
        if (again != NULL && !is_poison(t, again + at, SECOND_OUTPUT_POISON)) continue;
        if (found.count++ == 0) found.first = i;
    }
    return found;
}

/* Appends what was left unwritten by both runs (by the one run, without `again`). Outputs
 * in the very place of an input hold no poison. */
static int append_unwritten(const test_case *c, size_t first, const uint8_t *again, buffer *to) {
    int records = 0;
    for (int i = c->inputs; i < c->total; i++) {
        const tensor *t = &c->tensors[i];
        if (t->home == i || !t->exact) {
            const unwritten_record found = find_unwritten(t, i, response.data + first, again);
            void *record = found.count > 0 ? extend(to, sizeof found) : NULL;
            if (record != NULL) memcpy(record, &found, sizeof found);
            records += record != NULL;
        }
        first += t->count * t->itemsize;
        if (again != NULL) again += t->count * t->itemsize;
    }
    return records;
}

/* One call of the kernel on fresh memory: header, outputs if it returned, damage, in `to`. */
static response_header run_once(test_case *c, uint16_t poison, buffer *to, size_t *outputs) {
    response_header head = {.magic = RESPONSE_MAGIC, .tensor = -1, .element = -1, .byte = UNKNOWN_BYTE};
    shrink(to);
    if (extend(to, sizeof head) == NULL) broken_frame("no memory for an answer");
    if (!place_case(c, poison)) {
        head.status = NO_MEMORY;
        return head;
    }
    choose_fill(c, poison == SECOND_OUTPUT_POISON);
    call_guarded(c, &head);
    if (head.status == RAN) *outputs = append_outputs(c, to);
    head.damages = (uint16_t)find_damage(c, head.status == RETURNED_REJECTED, to);
    return head;
}

static double seconds_since(const struct timespec *began) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + 1e-9 * (double)(now.tv_nsec - began->tv_nsec);
}

static memory_use growth(void) {
    const memory_use a = before_call, b = after_call;
    return (memory_use){.heap = b.heap > a.heap ? b.heap - a.heap : 0, .mapped = b.mapped > a.mapped ? b.mapped - a.mapped : 0};
}

/* Calls the kernel once more; false where it did not return, or where another call may take too long. */
static bool call_again(test_case *c, const struct timespec *began, double call_s) {
    size_t outputs;
    return seconds_since(began) + call_s < allowed_s && run_once(c, OUTPUT_POISON, &second, &outputs).status == RAN;
}

/* What a kernel keeps for later it keeps once, or until it is full; what it loses it loses every time. */
static void look_for_leak(test_case *c, const struct timespec *began) {
    const double call_s = seconds_since(began); /* of one call or two, with all that is checked after it */
    measures_memory = true;
    memory_use more = growth(), sum = more;
    bool heap = more.heap > 0, mapped = more.mapped > 0;
    int calls = 1;
    while (calls < FIRST_CALLS && (heap || mapped) && call_again(c, began, call_s)) {
        more = growth();
        heap = heap && more.heap > 0;
        mapped = mapped && more.mapped > 0;
        sum.heap += more.heap;
        sum.mapped += more.mapped;
        calls++;
    }
    const memory_use first = after_call;
    measures_memory = false;
    if (calls < FIRST_CALLS || !(heap || mapped)) return;
    const size_t each = (heap && (!mapped || sum.heap > sum.mapped) ? sum.heap : sum.mapped) / FIRST_CALLS;
    int rest = 0;
    while (rest < MORE_CALLS && (size_t)rest * each < LOST_BYTES && call_again(c, began, call_s)) rest++;
    if (rest < MORE_CALLS && (size_t)rest * each < LOST_BYTES) return;
    measures_memory = true;
    const bool measured = call_again(c, began, call_s);
    measures_memory = false;
    const size_t expected = (size_t)rest / 2 * each;
    if (measured && (after_call.heap > first.heap + expected || after_call.mapped > first.mapped + expected))
        note_leak(each, calls + rest);
}

static void append_changes(response_header *head, buffer *to) {
    size_t bytes;
    const char *said = noted_changes(&bytes);
    void *room = bytes > 0 ? extend(to, bytes) : NULL;
    if (room == NULL) return;
    memcpy(room, said, bytes);
    head->changes = (uint32_t)bytes;
}

/* There is no limit while answers are sent: the parent may be at something else. */
static void send_without_limit(const void *data, size_t bytes) {
    set_guard(0);
    send_answers(data, bytes);
}

/* Poison that survived may be a result that looks like it. Another run with another poison decides. */
static void run_case(test_case *c, uint32_t index, bool audited, const struct timespec *began) {
    size_t outputs = 0, outputs_again = 0;
    forget_changes();
    measures_memory = audited;
    response_header head = run_once(c, OUTPUT_POISON, &response, &outputs);
    measures_memory = false;
    buffer *answer = &response;
    const size_t end = response.size;
    const bool forced = c->header->flags & FLAG_SECOND_RUN;
    if (head.status == RAN && head.damages == 0 && (append_unwritten(c, outputs, NULL, &response) > 0 || forced)) {
        response.size = end;
        const response_header again = run_once(c, SECOND_OUTPUT_POISON, &second, &outputs_again);
        if (again.status == RAN && again.damages == 0) {
            head.unwrittens = (uint16_t)append_unwritten(c, outputs, second.data + outputs_again, &response);
        } else {
            head = again;
            answer = &second;
        }
    }
    if (head.status == FAULTED) remember_state(); /* the call was cut off, and could put nothing back */
    else if (audited) audit_state();
    if (audited) catch_faults_again();
    if (audited && head.status == RAN && answer == &response) look_for_leak(c, began);
    append_changes(&head, answer);
    head.index = index;
    head.bytes = (uint32_t)(answer->size - sizeof head);
    memcpy(answer->data, &head, sizeof head);
    if (!journal_answer(answer->data, answer->size)) send_without_limit(answer->data, answer->size);
}

/* Arguments: the descriptors of requests, of answers and of the journal; stdin, stdout and no journal without. */
int main(int count, char **arguments) {
    buffer frame = {0};
    test_case current;
    const int in = count > 2 ? atoi(arguments[1]) : STDIN_FILENO, out = count > 2 ? atoi(arguments[2]) : STDOUT_FILENO;
    open_journal(count > 3 ? atoi(arguments[3]) : -1);
    keep_worker(in, out);
    open_protocol(in, out);
    catch_faults();
    find_registers();
    attest();
    for (bool first = true; read_frame(&frame); first = false) {
        const frame_header *head = (const frame_header *)frame.data;
        allowed_s = (head->limit_s - GRACE_S) / 4.0;
        if (first) remember_state(); /* not before: limits are set once the worker has said who it is */
        const uint8_t *at = frame.data + sizeof *head;
        for (uint32_t i = 0; i < head->count; i++) {
            struct timespec began;
            clock_gettime(CLOCK_MONOTONIC, &began);
            begin_case(i);
            parse_case(at, &current);
            renew_guard(head->limit_s, &began);
            run_case(&current, i, head->audits == AUDIT_EACH || i + 1 == head->count, &began);
            release_memory(&current);
            at += current.header->bytes;
        }
        send_without_limit(NULL, 0);
        shrink(&frame); /* many workers hold the same large case at once */
        shrink(&response);
        shrink(&second);
    }
    return 0;
}
