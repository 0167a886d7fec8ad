/* dispatch.c: the way a library would ship it. Contiguous rows take the widest fast path that the machine has,
 * everything else the composed one. The parts are the other kernels, each under a name of its own. */
#include "rows.h"

#define kf_rms_norm composed_rms_norm
#include "composed.c"
#undef kf_rms_norm

#if defined(__x86_64__)

#define kf_rms_norm generic_rms_norm
#include "generic.c"
#undef kf_rms_norm
#define kf_rms_norm avx2_rms_norm
#include "avx2.c"
#undef kf_rms_norm
#define kf_rms_norm avx512_rms_norm
#include "avx512.c"
#undef kf_rms_norm

static int fast_rms_norm(const kf_rms_norm_call *call) {
    if (__builtin_cpu_supports("avx512f")) return avx512_rms_norm(call);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_rms_norm(call);
    return generic_rms_norm(call);
}

#elif defined(__ARM_FEATURE_SVE)

#define kf_rms_norm fast_rms_norm
#include "sve.c"
#undef kf_rms_norm

#elif defined(__ARM_NEON)

#define kf_rms_norm fast_rms_norm
#include "neon.c"
#undef kf_rms_norm

#else

#define kf_rms_norm fast_rms_norm
#include "generic.c"
#undef kf_rms_norm

#endif

int kf_rms_norm(const kf_rms_norm_call *call) {
    return is_row_wise(call) ? fast_rms_norm(call) : composed_rms_norm(call);
}
