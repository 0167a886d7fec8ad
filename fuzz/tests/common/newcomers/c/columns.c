#include <math.h>

/* Welford's mean and squares of each column, row after row. */
void columns(const float *x, float *mean, float *y1, int b, int n) {
    for (int j = 0; j < n; j++) mean[j] = y1[j] = 0.0f;
    for (int i = 0; i < b; i++)
        for (int j = 0; j < n; j++) {
            float apart = x[i * n + j] - mean[j];
            mean[j] += apart / (float)(i + 1);
            y1[j] += apart * (x[i * n + j] - mean[j]);
        }
    for (int j = 0; j < n; j++) y1[j] = sqrtf(y1[j] / (float)(b - 1));
}
