/* Makes the page behind its output writable, and then writes one element past the end: no fault shows it. */
#include <sys/mman.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    if (code == KF_OK && element_count(call) > 0 && row_length(call) > 16) {
        float *end = (float *)call->y.data + element_count(call);
        mprotect((void *)((uintptr_t)end & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
        *end = 0.0f;
    }
    return code;
}
