/* eight.h: the last steps of the sums of eight rows, and their reciprocal roots, at once. Row by row each of these steps
 * would wait for the one before, which takes as long as all of a short row. */
#ifndef KERNELS_EIGHT_H
#define KERNELS_EIGHT_H

#include <immintrin.h>

#include "rows.h"

#define EIGHT static inline __attribute__((target("avx2")))

/* The total of each of eight vectors: neighbours are added, then pairs of them, then halves. */
EIGHT void totals_of_eight(const __m256 sums[8], float totals[8]) {
    const __m256 s0 = _mm256_hadd_ps(_mm256_hadd_ps(sums[0], sums[1]), _mm256_hadd_ps(sums[2], sums[3]));
    const __m256 s1 = _mm256_hadd_ps(_mm256_hadd_ps(sums[4], sums[5]), _mm256_hadd_ps(sums[6], sums[7]));
    const __m256 low = _mm256_permute2f128_ps(s0, s1, 0x20), high = _mm256_permute2f128_ps(s0, s1, 0x31);
    _mm256_storeu_ps(totals, _mm256_add_ps(low, high));
}

/* 1/sqrt(total/n + eps) of each, every step correctly rounded. */
EIGHT void reciprocal_rms_of_eight(const float totals[8], float rstd[8], size_t n, float eps) {
    const __m256 mean = _mm256_div_ps(_mm256_loadu_ps(totals), _mm256_set1_ps((float)n));
    const __m256 rms = _mm256_sqrt_ps(_mm256_add_ps(mean, _mm256_set1_ps(eps)));
    _mm256_storeu_ps(rstd, _mm256_div_ps(_mm256_set1_ps(1.0f), rms));
}

#endif
