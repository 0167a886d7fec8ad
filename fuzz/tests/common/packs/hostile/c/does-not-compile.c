/* Includes a header that was never committed. */
#include "vendor/simd_math.h"
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) { return simd_normalise(call); }
