/* elements.h: elements of any dtype at any strides, one at a time: slow, and right wherever a tensor lies.
 *
 * Everything is calculated in `real`, float unless the kernel is built with -DREAL=double; a result is rounded once, when
 * it is stored. Doubles are not stored in fewer bits than a float has: by way of float that would be two roundings. */
#ifndef KERNELS_ELEMENTS_H
#define KERNELS_ELEMENTS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "half.h"
#include "kernelfuzz.h"

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

static inline float bfloat_to_float(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* To nearest even; what overflows becomes infinite by the carry, and NaNs stay NaNs. */
static inline uint16_t float_to_bfloat(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A format of 8 bits. Without infinity it has NaN where all bits but the sign's are set, and overflows to that. */
typedef struct {
    int precision; /* significant bits, the hidden one included */
    int emin;      /* the smallest normal number is 2^emin */
    bool infinity;
} byte_format;

static inline byte_format byte_format_of(kf_dtype dtype) {
    switch (dtype) {
        case KF_E4M3FN: return (byte_format){4, -6, false};
        default: return (byte_format){3, -14, true}; /* KF_E5M2 */
    }
}

static inline float byte_to_float(byte_format f, uint8_t bits) {
    const int mantissa = f.precision - 1, hidden = 1 << mantissa, top = 0x7f >> mantissa;
    const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & (hidden - 1);
    float size = ldexpf((float)(exponent ? fraction + hidden : fraction), f.emin - mantissa + (exponent ? exponent - 1 : 0));
    if (exponent == top && (f.infinity || fraction == hidden - 1)) size = fraction ? NAN : INFINITY;
    return bits >> 7 ? -size : size;
}

/* To nearest even. A carry out of the mantissa makes the next exponent, rightly so. */
static inline uint8_t float_to_byte(byte_format f, float value) {
    const int mantissa = f.precision - 1, beyond = f.infinity ? 0x7f >> mantissa << mantissa : 0x7f;
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    if (value == 0) return sign;
    if (isnan(value)) return sign | 0x7f;
    if (isinf(value)) return (uint8_t)(sign | beyond);
    int exponent;
    frexpf(value, &exponent);
    const int steps = exponent - f.precision > f.emin - mantissa ? exponent - f.precision - (f.emin - mantissa) : 0;
    const float units = nearbyintf(ldexpf(fabsf(value), mantissa - f.emin - steps));
    const int bits = steps > 0x7f >> mantissa ? beyond : (steps << mantissa) + (int)units;
    return (uint8_t)(sign | (bits < beyond ? bits : beyond));
}

static inline real load(const kf_tensor *t, int64_t offset) {
    switch (t->dtype) {
        case KF_F16: return half_to_float(((const uint16_t *)t->data)[offset]);
        case KF_BF16: return bfloat_to_float(((const uint16_t *)t->data)[offset]);
        case KF_F64: return (real)((const double *)t->data)[offset];
        case KF_F32: return (real)((const float *)t->data)[offset];
        default: return byte_to_float(byte_format_of(t->dtype), ((const uint8_t *)t->data)[offset]);
    }
}

/* A place along a dimension. */
static inline int64_t load_place(const kf_tensor *t, int64_t offset) {
    return t->dtype == KF_INT32 ? ((const int32_t *)t->data)[offset] : ((const int64_t *)t->data)[offset];
}

static inline void store(const kf_tensor *t, int64_t offset, real value) {
    switch (t->dtype) {
        case KF_F16: ((uint16_t *)t->data)[offset] = float_to_half((float)value); break;
        case KF_BF16: ((uint16_t *)t->data)[offset] = float_to_bfloat((float)value); break;
        case KF_F64: ((double *)t->data)[offset] = (double)value; break;
        case KF_F32: ((float *)t->data)[offset] = (float)value; break;
        default: ((uint8_t *)t->data)[offset] = float_to_byte(byte_format_of(t->dtype), (float)value);
    }
}

/* `value` as a tensor of that dtype would hold it. */
static inline real rounded(kf_dtype dtype, real value) {
    switch (dtype) {
        case KF_F16: return half_to_float(float_to_half((float)value));
        case KF_BF16: return bfloat_to_float(float_to_bfloat((float)value));
        case KF_F64: return value;
        case KF_F32: return (real)(float)value;
        default: return byte_to_float(byte_format_of(dtype), float_to_byte(byte_format_of(dtype), (float)value));
    }
}

static inline bool is_present(const kf_tensor *t) { return t->data != NULL; }

static inline bool has_elements(const kf_tensor *t) {
    for (int axis = 0; axis < t->rank; axis++)
        if (t->shape[axis] == 0) return false;
    return true;
}

/* One row of the grid: where it starts in tensors of x's shape, and in those with one element per row. */
typedef struct {
    const kf_tensor *x;
    int axis;
    int64_t n;
    int64_t index[KF_MAX_RANK];
    int64_t number; /* counted in C order */
} row;

static inline row first_row(const kf_tensor *x, int axis) {
    return (row){.x = x, .axis = axis, .n = x->shape[axis]};
}

/* False after the last row. */
static inline bool next_row(row *r) {
    r->number++;
    for (int axis = r->x->rank - 1; axis >= 0; axis--) {
        if (axis == r->axis) continue;
        if (++r->index[axis] < r->x->shape[axis]) return true;
        r->index[axis] = 0;
    }
    return false;
}

/* Offset of element `i` of the row. */
static inline int64_t at(const row *r, const kf_tensor *t, int64_t i) {
    int64_t offset = i * t->strides[r->axis];
    for (int axis = 0; axis < t->rank; axis++)
        if (axis != r->axis) offset += r->index[axis] * t->strides[axis];
    return offset;
}

/* Offset of the row's own element in a tensor of the shape of x without the axis. */
static inline int64_t at_row(const row *r, const kf_tensor *t) {
    int64_t offset = 0;
    for (int axis = 0; axis < t->rank; axis++) offset += r->index[axis + (axis >= r->axis)] * t->strides[axis];
    return offset;
}

/* Offset of column i of the weight; with rank 2, in the row of it that is the row's own. */
static inline int64_t at_column(const row *r, const kf_tensor *weight, int64_t i) {
    if (weight->rank == 1) return i * weight->strides[0];
    return r->number % weight->shape[0] * weight->strides[0] + i * weight->strides[1];
}

/* offset + weight of column i; 1 without a weight. Adding an offset of 0 would turn a weight of -0 into 0. */
static inline real scale_of(const row *r, const kf_tensor *weight, int64_t i, float offset) {
    if (!is_present(weight)) return 1;
    const real value = load(weight, at_column(r, weight, i));
    return offset != 0.0f ? (real)offset + value : value;
}

static inline real root(real value) {
    return sizeof(real) == sizeof(float) ? (real)sqrtf((float)value) : (real)sqrt((double)value);
}

#endif
