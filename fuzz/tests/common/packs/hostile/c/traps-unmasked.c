/* A debugging aid that was left in: floating-point exceptions become signals, from the 5th call on. */
#include <fenv.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    if (call_number() == 5) feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    return code;
}
