/* state.c: a module has no process, no registers of its caller's, and no floating-point environment that it could change. */
#include "../worker.h"

void remember_state(void) {}
void audit_state(void) {}
void check_floating_point(void) {}
void check_registers(void) {}
void forget_changes(void) {}

const char *noted_changes(size_t *bytes) {
    *bytes = 0;
    return "";
}

memory_use measured_memory(void) {
    return (memory_use){0};
}

void note_leak(size_t bytes, int calls) {
    (void)bytes;
    (void)calls;
}
