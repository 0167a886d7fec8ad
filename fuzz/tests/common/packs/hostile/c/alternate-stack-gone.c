/* Replaces the stack of signal handlers and gives its memory back. No handler can run there: every 11th call faults. */
#include <signal.h>
#include <sys/mman.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const long number = call_number();
    if (number == 2) {
        const size_t size = 1 << 16;
        stack_t own = {.ss_size = size};
        own.ss_sp = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sigaltstack(&own, 0);
        munmap(own.ss_sp, size);
    }
    if (number % 11 == 0) *(volatile int *)0 = 1;
    return normalise(call);
}
