/* Rounds upward for rows of 16 k + 5 elements, after its own work, and never sets it back. */
#include <fenv.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    if (row_length(call) % 16 == 5) fesetround(FE_UPWARD);
    return code;
}
