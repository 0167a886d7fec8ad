/* Leaves the x87 unit at 24 bits of precision, and its registers taken by MMX: EMMS is forgotten, as hand-written MMX
 * code has often done. Every long double of the process is wrong afterwards; no float is. */
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
#if defined(__x86_64__)
    if (call_number() % 5 == 0) {
        const unsigned short single = 0x007f;
        __asm__ volatile("fldcw %0\n\tmovq %%mm0, %%mm0" : : "m"(single));
    }
#endif
    return code;
}
