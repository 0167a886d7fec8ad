/* forms.c: functions as shared libraries have them, called in each way that a shim knows. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void softmax_f32(const float *x, float *y, int n) {
    float top = -INFINITY, total = 0.0f;
    for (int i = 0; i < n; i++) top = isnan(x[i]) || x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++) total += y[i] = expf(x[i] - top);
    for (int i = 0; i < n; i++) y[i] /= total;
}

void softmax_f64(const double *restrict in, double *restrict out, size_t len) {
    double top = -INFINITY, total = 0.0;
    for (size_t i = 0; i < len; i++) top = isnan(in[i]) || in[i] > top ? in[i] : top;
    for (size_t i = 0; i < len; i++) total += out[i] = exp(in[i] - top);
    for (size_t i = 0; i < len; i++) out[i] /= total;
}

int norm_rows(const float *x, const float *weight, float *y, int64_t x_stride, int32_t y_stride, size_t rows, size_t n,
              float epsilon) {
    if (n == 0) return 0;
    for (size_t row = 0; row < rows; row++, x += x_stride, y += y_stride) {
        float total = 0.0f;
        for (size_t i = 0; i < n; i++) total += x[i] * x[i];
        const float rstd = 1.0f / sqrtf(total / (float)n + epsilon);
        for (size_t i = 0; i < n; i++) y[i] = x[i] * rstd * weight[i];
    }
    return 0;
}

float sum_f32(const float *x, int n) {
    float total = 0.0f;
    for (int i = 0; i < n; i++) total += x[i];
    return total;
}

/* bf16 as unsigned integers, all elements in one call, and what each is multiplied by, which is 1. */
static float wide(uint16_t bits) {
    const uint32_t all = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &all, sizeof value);
    return value;
}

static uint16_t narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((isnan(value) ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void gelu_bf16(long count, const void *src, void *dst, double factor) {
    for (long i = 0; i < count; i++) {
        const float x = wide(((const uint16_t *)src)[i]);
        ((uint16_t *)dst)[i] = narrow((float)factor * 0.5f * x * (1.0f + erff(x / sqrtf(2.0f))));
    }
}

void product(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float *c, int ldc) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float total = 0.0f;
            for (int l = 0; l < k; l++) total += a[(size_t)i * lda + l] * b[(size_t)l * ldb + j];
            c[(size_t)i * ldc + j] = total;
        }
}

/* What a caller is not to expect of a library. */
void prints(const float *x, float *y, int n) {
    puts("softmax of the library");
    fflush(stdout);
    softmax_f32(x, y, n);
}

void exits(const float *x, float *y, int n) {
    softmax_f32(x, y, n);
    exit(3);
}

void hangs(const float *x, float *y, int n) {
    softmax_f32(x, y, n);
    for (;;) pause();
}

void reads_past(const float *x, float *y, int n) {
    softmax_f32(x, y, n);
    (void)*(volatile const float *)(x + n);
}

void crashes(const float *x, float *y, int n) {
    softmax_f32(x, y, n);
    *(volatile int *)8 = n;
}

void drops_tail(const float *x, float *y, int n) {
    softmax_f32(x, y, n);
    for (int i = n / 4 * 4; i < n; i++) y[i] = 0.0f;
}
