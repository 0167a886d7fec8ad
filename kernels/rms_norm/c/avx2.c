/* avx2.c: two passes over each block of rows, four accumulators of eight lanes, scalar tail onto the vector total. */
#include "eight.h"

#define AVX2 __attribute__((target("avx2,fma")))

static AVX2 __m256 avx2_squares(const float *x, size_t n) {
    __m256 a0 = _mm256_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;
    for (size_t i = 0; i + 32 <= n; i += 32) {
        const __m256 v0 = _mm256_loadu_ps(x + i), v1 = _mm256_loadu_ps(x + i + 8);
        const __m256 v2 = _mm256_loadu_ps(x + i + 16), v3 = _mm256_loadu_ps(x + i + 24);
        a0 = _mm256_fmadd_ps(v0, v0, a0);
        a1 = _mm256_fmadd_ps(v1, v1, a1);
        a2 = _mm256_fmadd_ps(v2, v2, a2);
        a3 = _mm256_fmadd_ps(v3, v3, a3);
    }
    return _mm256_add_ps(_mm256_add_ps(a0, a1), _mm256_add_ps(a2, a3));
}

static void avx2_add_tails(block b, float *totals) {
    for (size_t r = 0; r < b.rows; r++) {
        const float *x = x_of(b, r);
        for (size_t i = b.n - b.n % 32; i < b.n; i++) totals[r] += x[i] * x[i];
    }
}

static AVX2 void avx2_scale(const float *x, float *y, size_t n, float rstd) {
    const __m256 scale = _mm256_set1_ps(rstd);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), scale));
        _mm256_storeu_ps(y + i + 8, _mm256_mul_ps(_mm256_loadu_ps(x + i + 8), scale));
        _mm256_storeu_ps(y + i + 16, _mm256_mul_ps(_mm256_loadu_ps(x + i + 16), scale));
        _mm256_storeu_ps(y + i + 24, _mm256_mul_ps(_mm256_loadu_ps(x + i + 24), scale));
    }
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), scale));
    for (; i < n; i++) y[i] = x[i] * rstd;
}

static AVX2 void avx2_block(const block *given) {
    const block b = *given; /* in registers: what lies elsewhere is read again after each vector that is stored */
    __m256 sums[BLOCK];
    float totals[BLOCK], rstd[BLOCK];
    for (size_t r = 0; r < b.rows; r++) sums[r] = avx2_squares(x_of(b, r), b.n);
    for (size_t r = b.rows; r % 8 != 0; r++) sums[r] = _mm256_setzero_ps();
    for (size_t r = 0; r < b.rows; r += 8) totals_of_eight(sums + r, totals + r);
    if (b.n % 32 != 0) avx2_add_tails(b, totals);
    for (size_t r = 0; r < b.rows; r += 8) reciprocal_rms_of_eight(totals + r, rstd + r, b.n, b.eps);
    for (size_t r = 0; r < b.rows; r++) avx2_scale(x_of(b, r), y_of(b, r), b.n, rstd[r]);
}

int kf_rms_norm(const kf_rms_norm_call *call) { return each_block(call, avx2_block); }
