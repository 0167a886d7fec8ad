/* avx512.c: two passes over each block of rows, four accumulators of sixteen lanes, scalar tail onto the vector total. */
#include "eight.h"

#define AVX512 __attribute__((target("avx512f")))

static AVX512 __m256 avx512_squares(const float *x, size_t n) {
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    for (size_t i = 0; i + 64 <= n; i += 64) {
        const __m512 v0 = _mm512_loadu_ps(x + i), v1 = _mm512_loadu_ps(x + i + 16);
        const __m512 v2 = _mm512_loadu_ps(x + i + 32), v3 = _mm512_loadu_ps(x + i + 48);
        a0 = _mm512_fmadd_ps(v0, v0, a0);
        a1 = _mm512_fmadd_ps(v1, v1, a1);
        a2 = _mm512_fmadd_ps(v2, v2, a2);
        a3 = _mm512_fmadd_ps(v3, v3, a3);
    }
    const __m512 sums = _mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3));
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(sums), 1));
    return _mm256_add_ps(_mm512_castps512_ps256(sums), high);
}

static void avx512_add_tails(block b, float *totals) {
    for (size_t r = 0; r < b.rows; r++) {
        const float *x = x_of(b, r);
        for (size_t i = b.n - b.n % 64; i < b.n; i++) totals[r] += x[i] * x[i];
    }
}

static AVX512 void avx512_scale(const float *x, float *y, size_t n, float rstd) {
    const __m512 scale = _mm512_set1_ps(rstd);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), scale));
        _mm512_storeu_ps(y + i + 16, _mm512_mul_ps(_mm512_loadu_ps(x + i + 16), scale));
        _mm512_storeu_ps(y + i + 32, _mm512_mul_ps(_mm512_loadu_ps(x + i + 32), scale));
        _mm512_storeu_ps(y + i + 48, _mm512_mul_ps(_mm512_loadu_ps(x + i + 48), scale));
    }
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), scale));
    for (; i < n; i++) y[i] = x[i] * rstd;
}

static AVX512 void avx512_block(const block *given) {
    const block b = *given; /* in registers: what lies elsewhere is read again after each vector that is stored */
    __m256 sums[BLOCK];
    float totals[BLOCK], rstd[BLOCK];
    for (size_t r = 0; r < b.rows; r++) sums[r] = avx512_squares(x_of(b, r), b.n);
    for (size_t r = b.rows; r % 8 != 0; r++) sums[r] = _mm256_setzero_ps();
    for (size_t r = 0; r < b.rows; r += 8) totals_of_eight(sums + r, totals + r);
    if (b.n % 64 != 0) avx512_add_tails(b, totals);
    for (size_t r = 0; r < b.rows; r += 8) reciprocal_rms_of_eight(totals + r, rstd + r, b.n, b.eps);
    for (size_t r = 0; r < b.rows; r++) avx512_scale(x_of(b, r), y_of(b, r), b.n, rstd[r]);
}

int kf_rms_norm(const kf_rms_norm_call *call) { return each_block(call, avx512_block); }
