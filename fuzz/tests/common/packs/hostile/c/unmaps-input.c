/* Gives back memory that is not its own: a page of its input, in every 8th call, after a right result. */
#include <sys/mman.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    if (call_number() % 8 == 0 && element_count(call)) munmap((void *)((uintptr_t)call->x.data & ~(uintptr_t)4095), 4096);
    return code;
}
