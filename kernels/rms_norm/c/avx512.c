/* avx512.c: two passes, four accumulators of sixteen lanes, scalar tail onto the vector total. */
#include <immintrin.h>

#include "rows.h"

#define AVX512 __attribute__((target("avx512f")))

static AVX512 float avx512_sum_of_squares(const float *x, size_t n) {
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        const __m512 v0 = _mm512_loadu_ps(x + i), v1 = _mm512_loadu_ps(x + i + 16);
        const __m512 v2 = _mm512_loadu_ps(x + i + 32), v3 = _mm512_loadu_ps(x + i + 48);
        a0 = _mm512_fmadd_ps(v0, v0, a0);
        a1 = _mm512_fmadd_ps(v1, v1, a1);
        a2 = _mm512_fmadd_ps(v2, v2, a2);
        a3 = _mm512_fmadd_ps(v3, v3, a3);
    }
    float total = _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3)));
    for (; i < n; i++) total += x[i] * x[i];
    return total;
}

static AVX512 void avx512_row(const float *x, float *y, size_t n, float eps) {
    const float rstd = reciprocal_rms(avx512_sum_of_squares(x, n), n, eps);
    const __m512 scale = _mm512_set1_ps(rstd);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), scale));
    for (; i < n; i++) y[i] = x[i] * rstd;
}

int kf_rms_norm(const kf_rms_norm_call *call) { return each_row(call, avx512_row); }
