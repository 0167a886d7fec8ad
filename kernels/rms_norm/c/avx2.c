/* avx2.c: two passes, four accumulators of eight lanes, scalar tail onto the vector total. */
#include <immintrin.h>

#include "rows.h"

#define AVX2 __attribute__((target("avx2,fma")))

static AVX2 float avx2_total(__m256 v) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

static AVX2 float avx2_sum_of_squares(const float *x, size_t n) {
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256 v0 = _mm256_loadu_ps(x + i), v1 = _mm256_loadu_ps(x + i + 8);
        const __m256 v2 = _mm256_loadu_ps(x + i + 16), v3 = _mm256_loadu_ps(x + i + 24);
        a0 = _mm256_fmadd_ps(v0, v0, a0);
        a1 = _mm256_fmadd_ps(v1, v1, a1);
        a2 = _mm256_fmadd_ps(v2, v2, a2);
        a3 = _mm256_fmadd_ps(v3, v3, a3);
    }
    float total = avx2_total(_mm256_add_ps(_mm256_add_ps(a0, a1), _mm256_add_ps(a2, a3)));
    for (; i < n; i++) total += x[i] * x[i];
    return total;
}

static AVX2 void avx2_row(const float *x, float *y, size_t n, float eps) {
    const float rstd = reciprocal_rms(avx2_sum_of_squares(x, n), n, eps);
    const __m256 scale = _mm256_set1_ps(rstd);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), scale));
    for (; i < n; i++) y[i] = x[i] * rstd;
}

int kf_rms_norm(const kf_rms_norm_call *call) { return each_row(call, avx2_row); }
