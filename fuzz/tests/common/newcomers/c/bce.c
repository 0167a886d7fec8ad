#include <math.h>

void bce(const float *x, const float *t, float *y, int b, int n) {
    double total = 0.0;
    for (int i = 0; i < b * n; i++)
        total += (x[i] > 0 ? x[i] : 0.0f) - x[i] * t[i] + log1pf(expf(-fabsf(x[i])));
    *y = (float)(total / (b * n));
}
