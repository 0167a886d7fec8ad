"""What every emitted kernel begins with: its dtypes, and how they are rounded, loaded and stored."""

HEAD = """
#include "kernelfuzz.h"
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#define COMMON static inline __attribute__((unused))

typedef float f32;
typedef double f64;
typedef float f16;  /* held in a float, and rounded after each operation */
typedef float bf16; /* the same */

COMMON f32 float_of(uint32_t bits) {
    f32 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

COMMON uint32_t bits_of(f32 value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* To nearest, ties to even, in a format of so many bits whose smallest normal number is 2^emin. */
COMMON f64 nearest(f64 value, int precision, int emin, f64 max) {
    if (isnan(value) || isinf(value))
        return value;
    if (value == 0) /* a subnormal float that was made a double is so too, where the processor flushes operands */
        return copysign(0.0, value);
    int exponent;
    frexp(value, &exponent);
    int unit = exponent - precision > emin - precision + 1 ? exponent - precision : emin - precision + 1;
    f64 found = ldexp(nearbyint(ldexp(value, -unit)), unit);
    return fabs(found) > max ? copysign((f64)INFINITY, found) : found;
}

COMMON f32 to_f32(f64 value) { return (f32)value; }
COMMON f16 to_f16(f64 value) { return (f16)nearest(value, 11, -14, 65504.0); }
COMMON bf16 to_bf16(f64 value) { return (bf16)nearest(value, 8, -126, 0x1.fep127); }

/* By its bits: a conversion to f64 could take a subnormal number for zero. */
COMMON bf16 round_bf16(f32 value) {
    uint32_t bits = bits_of(value);
    return isnan(value) ? value : float_of((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

COMMON f16 round_f16(f32 value) { return to_f16(value); }

COMMON f32 half_of(uint16_t bits) {
    f32 size = (bits >> 10 & 31) == 31 ? (bits & 1023 ? NAN : INFINITY)
               : bits >> 10 & 31       ? ldexpf((f32)(1024 + (bits & 1023)), (bits >> 10 & 31) - 25)
                                       : ldexpf((f32)(bits & 1023), -24);
    return bits >> 15 ? -size : size;
}

COMMON uint16_t bits_of_half(f16 value) {
    uint16_t sign = (uint16_t)(bits_of(value) >> 31 << 15);
    f32 size = fabsf(value);
    if (isnan(value) || isinf(value))
        return (uint16_t)(sign | 31 << 10 | (isnan(value) ? 512 : 0));
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (int)ldexpf(size, 24));
    int exponent;
    f32 mantissa = frexpf(size, &exponent);
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexpf(mantissa, 11) - 1024));
}

COMMON uint16_t upper_half(bf16 value) { return (uint16_t)(bits_of(value) >> 16); }

COMMON f32 load_f32(const kf_tensor *t, int64_t at) {
    switch (t->dtype) {
    case KF_F64: return (f32)((const f64 *)t->data)[at];
    case KF_F32: return ((const f32 *)t->data)[at];
    case KF_F16: return half_of(((const uint16_t *)t->data)[at]);
    case KF_BF16: return float_of((uint32_t)((const uint16_t *)t->data)[at] << 16);
    case KF_BOOL: return ((const uint8_t *)t->data)[at];
    case KF_INT8: return ((const int8_t *)t->data)[at];
    case KF_INT32: return (f32)((const int32_t *)t->data)[at];
    case KF_INT64: return (f32)((const int64_t *)t->data)[at];
    default: return NAN;
    }
}

/* What is stored in 16 bits is taken as it is: a conversion from f64 could flush it. */
COMMON f16 load_f16(const kf_tensor *t, int64_t at) {
    return t->dtype == KF_F64 ? to_f16(((const f64 *)t->data)[at]) : round_f16(load_f32(t, at));
}

COMMON bf16 load_bf16(const kf_tensor *t, int64_t at) {
    return t->dtype == KF_F64 ? to_bf16(((const f64 *)t->data)[at]) : round_bf16(load_f32(t, at));
}

COMMON f64 load_f64(const kf_tensor *t, int64_t at) {
    switch (t->dtype) {
    case KF_F64: return ((const f64 *)t->data)[at];
    case KF_INT32: return ((const int32_t *)t->data)[at];
    case KF_INT64: return (f64)((const int64_t *)t->data)[at];
    default: return (f64)load_f32(t, at);
    }
}

COMMON void store_f32(const kf_tensor *t, int64_t at, f32 value) {
    switch (t->dtype) {
    case KF_F64: ((f64 *)t->data)[at] = SATURATED((f64)value, 0x1.fffffffffffffp1023); break;
    case KF_F32: ((f32 *)t->data)[at] = SATURATED(value, 0x1.fffffep127f); break;
    case KF_F16: ((uint16_t *)t->data)[at] = bits_of_half((f16)SATURATED(to_f16(value), 65504.0f)); break;
    case KF_BF16: ((uint16_t *)t->data)[at] = upper_half(SATURATED(round_bf16(value), 0x1.fep127f)); break;
    default: break;
    }
}

COMMON void store_f64(const kf_tensor *t, int64_t at, f64 value) {
    switch (t->dtype) {
    case KF_F64: ((f64 *)t->data)[at] = SATURATED(value, 0x1.fffffffffffffp1023); break;
    case KF_F32: ((f32 *)t->data)[at] = SATURATED((f32)value, 0x1.fffffep127f); break;
    case KF_F16: ((uint16_t *)t->data)[at] = bits_of_half((f16)SATURATED(to_f16(value), 65504.0f)); break;
    case KF_BF16: ((uint16_t *)t->data)[at] = upper_half(SATURATED(to_bf16(value), 0x1.fep127f)); break;
    default: break;
    }
}

/* A factor of 'columns' for row r: its own element, or of rank 2 that of row r mod so many. */
COMMON int64_t column(const kf_tensor *t, int64_t r, int64_t i, int64_t n) {
    return t->rank == 2 ? r % t->shape[0] * n + i : i;
}
"""
PLAIN = "#define SATURATED(value, max) (value)\n"
SATURATED = """
#define SATURATED(value, max) \\
    (isinf(value) ? ((value) > 0 ? (max) : -(max)) : (value))
"""
