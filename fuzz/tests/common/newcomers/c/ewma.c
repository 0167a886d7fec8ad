#include <math.h>
void ewma(const float *x, float *y, int b, int t) {
    for (int r = 0; r < b; r++) {
        float h = x[r * t];
        y[r * t] = h;
        for (int i = 1; i < t; i++) y[r * t + i] = h = fmaf(0.9f, h, 0.1f * x[r * t + i]);
    }
}
