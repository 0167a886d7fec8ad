/* What every emitted kernel has: `prelude.py` writes what depends on formats between both parts. */
/* ==== head */

#include "kernelfuzz.h"
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#define COMMON static inline __attribute__((unused))

typedef float f32;
typedef double f64;

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

/* 2^exponent, a normal number: by its bits, as ldexp is a call for each element where nothing is optimised. */
COMMON f64 power(int exponent) {
    const uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    f64 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest, ties to even, in a format of so many bits whose smallest normal number is 2^emin. */
COMMON f64 nearest(f64 value, int precision, int emin, f64 max) {
    if (isnan(value) || isinf(value))
        return value;
    if (value == 0) /* a subnormal float that was made a double is so too, where the processor flushes operands */
        return copysign(0.0, value);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    const int unit = (exponent > emin ? exponent : emin) - precision + 1;
    const f64 found = nearbyint(value * power(-unit)) * power(unit);
    return fabs(found) > max ? copysign((f64)INFINITY, found) : found;
}

/* A double that was only moved: what a float holds too stays as it is, where a conversion could flush it. */
COMMON f32 kept_f32(f64 value) {
    const f64 units = fabs(value) * 0x1p149;
    if (!(units < 0x1p23) || units != rint(units))
        return (f32)value;
    return float_of((uint32_t)units | (uint32_t)!!signbit(value) << 31);
}

/* To nearest in a format that has the exponents of f32 and lacks so many bits: by its bits, since a conversion to f64
 * could take a subnormal number for zero. */
COMMON f32 nearest_upper(f32 value, int lacks) {
    const uint32_t bits = bits_of(value), step = (uint32_t)1 << lacks, half = step / 2 - 1 + (bits >> lacks & 1);
    return float_of(isnan(value) ? bits | 0x400000 : (bits + half) & ~(step - 1));
}

/* The number of a format of so many bits, of which its exponents are fewer than those of f32. */
COMMON f32 decoded(uint32_t bits, int width, int precision, int emin, int infinities) {
    const uint32_t hidden = (uint32_t)1 << (precision - 1), most = ((uint32_t)1 << (width - precision)) - 1;
    const uint32_t fraction = bits & (hidden - 1), exponent = bits >> (precision - 1) & most;
    const int unit = emin - precision + (exponent ? (int)exponent : 1);
    f32 size = (f32)(exponent ? fraction + hidden : fraction) * (f32)power(unit);
    if (exponent == most && (infinities || fraction == hidden - 1))
        size = fraction ? NAN : INFINITY;
    return bits >> (width - 1) ? -size : size;
}

/* Its bits. What is infinite is NaN where the format has no infinity. */
COMMON uint32_t encoded(f32 value, int width, int precision, int emin, int infinities) {
    const uint32_t hidden = (uint32_t)1 << (precision - 1), sign = bits_of(value) >> 31 << (width - 1);
    const uint32_t nan = ((uint32_t)1 << (width - 1)) - 1;
    const f32 size = fabsf(value);
    if (isnan(value) || isinf(value))
        return sign | (isnan(value) || !infinities ? nan : nan - (hidden - 1));
    if (size < (f32)power(emin))
        return sign | (uint32_t)(size * (f32)power(precision - 1 - emin));
    return sign | ((bits_of(size) >> (24 - precision)) - (uint32_t)(126 + emin) * hidden);
}
/* ==== tail */

COMMON void store_kept(const kf_tensor *t, int64_t at, f64 value) {
    const f32 kept = kept_f32(value);
    if (t->dtype != KF_F64 && kept == value)
        store_f32(t, at, kept);
    else
        store_f64(t, at, value);
}

/* A factor of 'columns' for row r: its own element, or of rank 2 that of row r mod so many. */
COMMON int64_t column(const kf_tensor *t, int64_t r, int64_t i, int64_t n) {
    return t->rank == 2 ? r % t->shape[0] * n + i : i;
}
