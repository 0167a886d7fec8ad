/* quantize_mxfp8.c: the largest magnitude of each block first, then its exponent, then its codes: e5m2 with -DE5M2. */
#include "blocks.h"

#ifdef E5M2
#define KERNEL kf_quantize_mxfp8_e5m2
typedef kf_quantize_mxfp8_e5m2_call call_of;
enum { CODES = KF_E5M2, TOP = 57344, TOP_EXPONENT = 15 };
static const float CARRY = 1.875f; /* rounded to the mantissa of a code, it is 2 */
#else
#define KERNEL kf_quantize_mxfp8
typedef kf_quantize_mxfp8_call call_of;
enum { CODES = KF_E4M3FN, TOP = 448, TOP_EXPONENT = 8 };
static const float CARRY = 1.9375f;
#endif

/* The stored exponent of a power of two. */
static int exponent_of(float most, int scale_rule, int of_infinity) {
    if (isnan(most)) return 255;
    if (isinf(most)) return of_infinity;
    const float size = scale_rule == 3 ? most / TOP : most;
    if (size == 0) return 0;
    int exponent;
    const float part = 2 * frexpf(size, &exponent); /* from 1 to below 2 */
    const bool rises = scale_rule == 1 ? part >= CARRY : scale_rule >= 2 && part > 1;
    const int stored = exponent - 1 + rises + 127 - (scale_rule == 3 ? 0 : TOP_EXPONENT);
    return stored < 0 ? 0 : stored;
}

static void write_codes(const kf_tensor *x, const kf_tensor *q, const row *r, block b, int stored) {
    for (int64_t i = b.first; i < b.end; i++) {
        const float ratio = stored == 255 ? NAN : ldexpf(load(x, at(r, x, i)), 127 - stored);
        store(q, at(r, q, i), ratio > TOP ? TOP : ratio < -TOP ? -TOP : ratio);
    }
}

int KERNEL(const call_of *call) {
    const kf_tensor *x = &call->x, *q = &call->q, *scale = &call->scale;
    if (!fits_float(x) || !is_of(q, CODES) || !is_of(scale, KF_UINT8)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, call->axis);
    do {
        for (int64_t number = 0; number < scale->shape[scale->rank - 1]; number++) {
            const block b = block_of(&r, number, 32);
            const int stored = exponent_of(most_of(x, &r, b), (int)call->scale_rule, (int)call->of_infinity);
            ((uint8_t *)scale->data)[at_own(&r, scale, number)] = (uint8_t)stored;
            write_codes(x, q, &r, b, stored);
        }
    } while (next_row(&r));
    return KF_OK;
}
