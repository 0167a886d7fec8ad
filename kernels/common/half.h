/* half.h: between f16 and f32, every value exact or rounded to nearest even; NaNs stay NaNs. */
#ifndef KERNELS_HALF_H
#define KERNELS_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>

static inline float half_to_float(uint16_t half) { return _cvtsh_ss(half); }
static inline uint16_t float_to_half(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

#elif defined(__aarch64__)

static inline float half_to_float(uint16_t half) {
    __fp16 value;
    memcpy(&value, &half, sizeof value);
    return (float)value;
}

static inline uint16_t float_to_half(float value) {
    const __fp16 rounded = (__fp16)value;
    uint16_t half;
    memcpy(&half, &rounded, sizeof half);
    return half;
}

#else

static inline float half_to_float(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact */
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    uint32_t bits = sign | fraction << 13;
    if (exponent < 0x1f) bits |= (exponent + 112) << 23;
    else bits |= 0x7f800000 | (fraction != 0 ? 0x00400000 : 0);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t float_to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 65536 and more */
    if (magnitude < 0x33000000) return sign;                       /* less than half of the smallest subnormal */
    const uint32_t exponent = magnitude >> 23;
    /* Align the significand to the f16 grid. Rounding may carry into the exponent and into infinity, rightly so. */
    const uint32_t dropped = exponent < 113 ? 126 - exponent : 13;
    const uint32_t kept = exponent < 113 ? (magnitude & 0x7fffff) | 0x800000 : magnitude - (112u << 23);
    const uint32_t half = kept >> dropped, rest = kept & ((1u << dropped) - 1), tie = 1u << (dropped - 1);
    return (uint16_t)(sign | (half + (rest > tie || (rest == tie && half % 2 == 1))));
}

#endif

static inline void widen(const uint16_t *from, float *to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = half_to_float(from[i]);
}

static inline void narrow(const float *from, uint16_t *to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = float_to_half(from[i]);
}

#endif
