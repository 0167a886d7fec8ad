#include <math.h>

void huber(const float *x, const float *t, float *y, int b, int n) {
    float total = 0.0f;
    for (int i = 0; i < b; i++) {
        float row = 0.0f;
        for (int j = 0; j < n; j++) {
            float d = fabsf(x[i * n + j] - t[i * n + j]);
            row += d < 1.0f ? 0.5f * d * d : d - 0.5f;
        }
        total += row;
    }
    *y = total / (float)(b * n);
}
