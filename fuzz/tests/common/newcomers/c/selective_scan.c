#include <math.h>

void selective_scan(const float *x, const float *dt, const float *a, const float *b, const float *c, float *y, int t, int d, int n) {
    for (int i = 0; i < d; i++) {
        float h[n > 0 ? n : 1];
        for (int j = 0; j < n; j++) h[j] = 0.0f;
        for (int s = 0; s < t; s++) {
            float total = 0.0f, step = dt[s * d + i];
            for (int j = 0; j < n; j++) {
                h[j] = expf(step * a[i * n + j]) * h[j] + step * x[s * d + i] * b[s * n + j];
                total += h[j] * c[s * n + j];
            }
            y[s * d + i] = total;
        }
    }
}
