#include <math.h>

void adamw(const float *p, const float *g, const float *m, const float *v, float *y0, float *y1, float *y2, int n) {
    for (int i = 0; i < n; i++) {
        y1[i] = 0.9f * m[i] + 0.1f * g[i];
        y2[i] = 0.999f * v[i] + 0.001f * (g[i] * g[i]);
        y0[i] = p[i] * (1.0f - 1e-5f) - 1e-3f * (y1[i] / (sqrtf(y2[i]) + 1e-8f));
    }
}
