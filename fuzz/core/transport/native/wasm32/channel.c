/* channel.c: frames come from the engine's host, and answers go there, each at once. They are apart from what WASI has: a
 * kernel that prints does not meet them. */
#include "../worker.h"

__attribute__((import_module("kernelfuzz"), import_name("receive"))) size_t kf_receive(void *to, size_t bytes);
__attribute__((import_module("kernelfuzz"), import_name("send"))) void kf_send(const void *data, size_t bytes);

void open_protocol(int in, int out) {
    (void)in;
    (void)out;
}

/* The host gives fewer bytes only at the end. */
bool read_exactly(void *to, size_t bytes, bool may_end) {
    const size_t got = kf_receive(to, bytes);
    if (got == bytes) return true;
    if (got > 0 || !may_end) broken_frame("broken frame: the stream ended %zu bytes early", bytes - got);
    return false;
}

void write_all(const void *data, size_t bytes) {
    if (bytes > 0) kf_send(data, bytes);
}

void open_journal(int descriptor) {
    (void)descriptor;
}

void begin_case(uint32_t index) {
    (void)index;
}

bool journal_answer(const void *data, size_t bytes) {
    (void)data;
    (void)bytes;
    return false;
}

void send_answers(const void *data, size_t bytes) {
    write_all(data, bytes);
}
