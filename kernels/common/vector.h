/* vector.h: the few operations on vectors of floats that kernels over rows are made of, for AVX2, SVE, RVV and NEON: what the
 * compiler is told to use decides. A loop over a row is written once:
 *
 *     vector sum = v_all(0.0f);
 *     for (size_t i = 0; i < n; i += v_lanes()) sum = v_add(sum, v_load(x + i, n - i, 0.0f));
 *
 * `left` is how many elements of the row are left, at least one: no more of them than that are read or written. */
#ifndef KERNELS_VECTOR_H
#define KERNELS_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>

typedef __m256 vector;

static inline size_t v_lanes(void) { return 8; }

static inline __m256i v_first(size_t left) {
    static const int32_t first[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(first + (left < 8 ? 8 - left : 0)));
}

static inline vector v_all(float value) { return _mm256_set1_ps(value); }
static inline vector v_add(vector a, vector b) { return _mm256_add_ps(a, b); }
static inline vector v_subtract(vector a, vector b) { return _mm256_sub_ps(a, b); }
static inline vector v_multiply(vector a, vector b) { return _mm256_mul_ps(a, b); }
static inline vector v_divide(vector a, vector b) { return _mm256_div_ps(a, b); }
static inline vector v_max(vector a, vector b) { return _mm256_max_ps(a, b); }
static inline vector v_min(vector a, vector b) { return _mm256_min_ps(a, b); }
static inline vector v_multiply_add(vector a, vector b, vector c) { return _mm256_fmadd_ps(a, b, c); }
static inline vector v_round(vector a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

/* Lanes beyond `left` hold `beyond`. By way of a buffer: QEMU reads lanes that a masked load leaves out. */
static inline vector v_load(const float *x, size_t left, float beyond) {
    if (left >= 8) return _mm256_loadu_ps(x);
    float lanes[8] = {beyond, beyond, beyond, beyond, beyond, beyond, beyond, beyond};
    memcpy(lanes, x, left * sizeof *x);
    return _mm256_loadu_ps(lanes);
}

static inline void v_store(float *y, size_t left, vector a) {
    float lanes[8];
    if (left >= 8) {
        _mm256_storeu_ps(y, a);
    } else {
        _mm256_storeu_ps(lanes, a);
        memcpy(y, lanes, left * sizeof *y);
    }
}

/* Lanes beyond `left` become 0. */
static inline vector v_cut(vector a, size_t left) { return _mm256_and_ps(a, _mm256_castsi256_ps(v_first(left))); }

/* a * 2^k for whole numbers k from -250 to 250, rounded once. */
static inline vector v_scale(vector a, vector k) {
    const __m256i whole = _mm256_cvtps_epi32(k), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    const __m256i rest = _mm256_sub_epi32(whole, half);
    const __m256i one = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i two = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(one)), _mm256_castsi256_ps(two));
}

/* Halves are added, then halves of what is left. */
static inline float v_sum(vector a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float v_greatest(vector a) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#elif defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>

typedef svfloat32_t vector;

static inline size_t v_lanes(void) { return svcntw(); }
static inline svbool_t v_first(size_t left) { return svwhilelt_b32_u64(0, left); }

static inline vector v_all(float value) { return svdup_f32(value); }
static inline vector v_add(vector a, vector b) { return svadd_f32_x(svptrue_b32(), a, b); }
static inline vector v_subtract(vector a, vector b) { return svsub_f32_x(svptrue_b32(), a, b); }
static inline vector v_multiply(vector a, vector b) { return svmul_f32_x(svptrue_b32(), a, b); }
static inline vector v_divide(vector a, vector b) { return svdiv_f32_x(svptrue_b32(), a, b); }
static inline vector v_max(vector a, vector b) { return svmax_f32_x(svptrue_b32(), a, b); }
static inline vector v_min(vector a, vector b) { return svmin_f32_x(svptrue_b32(), a, b); }
static inline vector v_multiply_add(vector a, vector b, vector c) { return svmla_f32_x(svptrue_b32(), c, a, b); }
static inline vector v_round(vector a) { return svrintn_f32_x(svptrue_b32(), a); }

static inline vector v_load(const float *x, size_t left, float beyond) {
    const svbool_t first = v_first(left);
    return svsel_f32(first, svld1_f32(first, x), svdup_f32(beyond));
}

static inline void v_store(float *y, size_t left, vector a) { svst1_f32(v_first(left), y, a); }
static inline vector v_cut(vector a, size_t left) { return svsel_f32(v_first(left), a, svdup_f32(0.0f)); }

static inline vector v_scale(vector a, vector k) {
    return svscale_f32_x(svptrue_b32(), a, svcvt_s32_f32_x(svptrue_b32(), k));
}

static inline float v_sum(vector a) { return svaddv_f32(svptrue_b32(), a); }
static inline float v_greatest(vector a) { return svmaxv_f32(svptrue_b32(), a); }

#elif defined(__riscv_v_intrinsic)
#include <riscv_vector.h>

typedef vfloat32m1_t vector;

static inline size_t v_lanes(void) { return __riscv_vsetvlmax_e32m1(); }
static inline size_t v_first(size_t left) { return __riscv_vsetvl_e32m1(left < v_lanes() ? left : v_lanes()); }

static inline vector v_all(float value) { return __riscv_vfmv_v_f_f32m1(value, v_lanes()); }
static inline vector v_add(vector a, vector b) { return __riscv_vfadd_vv_f32m1(a, b, v_lanes()); }
static inline vector v_subtract(vector a, vector b) { return __riscv_vfsub_vv_f32m1(a, b, v_lanes()); }
static inline vector v_multiply(vector a, vector b) { return __riscv_vfmul_vv_f32m1(a, b, v_lanes()); }
static inline vector v_divide(vector a, vector b) { return __riscv_vfdiv_vv_f32m1(a, b, v_lanes()); }
static inline vector v_multiply_add(vector a, vector b, vector c) { return __riscv_vfmacc_vv_f32m1(c, a, b, v_lanes()); }

/* The second operand where one is NaN: the instructions for it return the other one. */
static inline vector v_max(vector a, vector b) {
    return __riscv_vmerge_vvm_f32m1(b, a, __riscv_vmfgt_vv_f32m1_b32(a, b, v_lanes()), v_lanes());
}
static inline vector v_min(vector a, vector b) {
    return __riscv_vmerge_vvm_f32m1(b, a, __riscv_vmflt_vv_f32m1_b32(a, b, v_lanes()), v_lanes());
}

/* For what an int32_t holds. */
static inline vector v_round(vector a) {
    return __riscv_vfcvt_f_x_v_f32m1(__riscv_vfcvt_x_f_v_i32m1(a, v_lanes()), v_lanes());
}

/* What is behind the row is left undisturbed (`tu`): an agnostic load may fill it with ones. */
static inline vector v_load(const float *x, size_t left, float beyond) {
    return __riscv_vle32_v_f32m1_tu(v_all(beyond), x, v_first(left));
}

static inline void v_store(float *y, size_t left, vector a) { __riscv_vse32_v_f32m1(y, a, v_first(left)); }
static inline vector v_cut(vector a, size_t left) { return __riscv_vmv_v_v_f32m1_tu(v_all(0.0f), a, v_first(left)); }

static inline vector v_power_of_two(vint32m1_t k) {
    const vint32m1_t exponent = __riscv_vadd_vx_i32m1(k, 127, v_lanes());
    return __riscv_vreinterpret_v_i32m1_f32m1(__riscv_vsll_vx_i32m1(exponent, 23, v_lanes()));
}

static inline vector v_scale(vector a, vector k) {
    const vint32m1_t whole = __riscv_vfcvt_x_f_v_i32m1(k, v_lanes()), half = __riscv_vsra_vx_i32m1(whole, 1, v_lanes());
    const vint32m1_t rest = __riscv_vsub_vv_i32m1(whole, half, v_lanes());
    return v_multiply(v_multiply(a, v_power_of_two(half)), v_power_of_two(rest));
}

/* Halves are added, then halves of what is left: in which order a reduction adds is the processor's choice. */
static inline float v_sum(vector a) {
    for (size_t half = v_lanes() / 2; half > 0; half /= 2)
        a = v_add(a, __riscv_vslidedown_vx_f32m1(a, half, v_lanes()));
    return __riscv_vfmv_f_s_f32m1_f32(a);
}

static inline float v_greatest(vector a) {
    for (size_t half = v_lanes() / 2; half > 0; half /= 2)
        a = v_max(a, __riscv_vslidedown_vx_f32m1(a, half, v_lanes()));
    return __riscv_vfmv_f_s_f32m1_f32(a);
}

#elif defined(__ARM_NEON)
#include <arm_neon.h>

typedef float32x4_t vector;

static inline size_t v_lanes(void) { return 4; }

static inline vector v_all(float value) { return vdupq_n_f32(value); }
static inline vector v_add(vector a, vector b) { return vaddq_f32(a, b); }
static inline vector v_subtract(vector a, vector b) { return vsubq_f32(a, b); }
static inline vector v_multiply(vector a, vector b) { return vmulq_f32(a, b); }
static inline vector v_divide(vector a, vector b) { return vdivq_f32(a, b); }
static inline vector v_max(vector a, vector b) { return vmaxq_f32(a, b); }
static inline vector v_min(vector a, vector b) { return vminq_f32(a, b); }
static inline vector v_multiply_add(vector a, vector b, vector c) { return vfmaq_f32(c, a, b); }
static inline vector v_round(vector a) { return vrndnq_f32(a); }

static inline vector v_load(const float *x, size_t left, float beyond) {
    if (left >= 4) return vld1q_f32(x);
    float lanes[4] = {beyond, beyond, beyond, beyond};
    memcpy(lanes, x, left * sizeof *x);
    return vld1q_f32(lanes);
}

static inline void v_store(float *y, size_t left, vector a) {
    float lanes[4];
    if (left >= 4) {
        vst1q_f32(y, a);
    } else {
        vst1q_f32(lanes, a);
        memcpy(y, lanes, left * sizeof *y);
    }
}

static inline vector v_cut(vector a, size_t left) {
    static const uint32_t places[4] = {0, 1, 2, 3};
    const uint32x4_t first = vcltq_u32(vld1q_u32(places), vdupq_n_u32(left < 4 ? (uint32_t)left : 4));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), first));
}

static inline vector v_scale(vector a, vector k) {
    const int32x4_t whole = vcvtq_s32_f32(k), half = vshrq_n_s32(whole, 1), bias = vdupq_n_s32(127);
    const int32x4_t one = vshlq_n_s32(vaddq_s32(half, bias), 23);
    const int32x4_t two = vshlq_n_s32(vaddq_s32(vsubq_s32(whole, half), bias), 23);
    return vmulq_f32(vmulq_f32(a, vreinterpretq_f32_s32(one)), vreinterpretq_f32_s32(two));
}

static inline float v_sum(vector a) { return vaddvq_f32(a); }
static inline float v_greatest(vector a) { return vmaxvq_f32(a); }

#endif

/* e^a within V_EXP_ULP for every float: e^a = 2^k e^r with |r| at most half a log 2, and a polynomial for e^r. */
#define V_EXP_ULP 1.0

static inline vector v_exp(vector a) {
    /* Beyond these bounds e^a is 0 or infinite. A NaN is the second operand, which the maximum of AVX2 returns. */
    a = v_min(v_all(89.0f), v_max(v_all(-104.0f), a));
    const vector k = v_round(v_multiply(a, v_all(0x1.715476p+0f)));
    vector r = v_multiply_add(k, v_all(-0x1.62e43p-1f), a);
    r = v_multiply_add(k, v_all(0x1.05c61p-29f), r);
    /* (e^r - 1 - r) / r^2, within 2^-30 of e^r. */
    vector q = v_multiply_add(v_all(0x1.a1256cp-13f), r, v_all(0x1.6d43bp-10f));
    q = v_multiply_add(q, r, v_all(0x1.1110ep-7f));
    q = v_multiply_add(q, r, v_all(0x1.5554e8p-5f));
    q = v_multiply_add(q, r, v_all(0x1.555556p-3f));
    q = v_multiply_add(q, r, v_all(0.5f));
    const vector beside = v_multiply_add(v_multiply(r, r), q, r);
    return v_scale(v_add(v_all(1.0f), beside), k);
}

#endif
