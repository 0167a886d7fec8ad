#include <math.h>

void unit_rows(const float *x, float *y, int n) {
    float sums[4] = {0};
    for (int i = 0; i < n; i++) sums[i % 4] += x[i] * x[i];
    float norm = sqrtf((sums[0] + sums[1]) + (sums[2] + sums[3]));
    float r = 1.0f / fmaxf(norm, 1e-12f);
    for (int i = 0; i < n; i++) y[i] = x[i] * r;
}
