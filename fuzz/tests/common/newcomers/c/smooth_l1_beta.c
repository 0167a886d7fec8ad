#include <math.h>
void smooth_l1_beta(const float *x, const float *y, float *out, int b, int n) {
    for (int r = 0; r < b; r++) {
        float s = 0;
        for (int i = 0; i < n; i++) {
            float d = fabsf(x[r * n + i] - y[r * n + i]);
            s += d < 0.5f ? d * d : d - 0.25f;
        }
        out[r] = s / n;
    }
}
