#include <math.h>

void window_attention(const float *q, const float *k, const float *v, float *y, int n, int d, int e) {
    for (int i = 0; i < n; i++) {
        int first = i < 3 ? 0 : i - 3;
        float s[4], top = -INFINITY, total = 0.0f;
        for (int j = first; j <= i; j++) {
            float dot = 0.0f;
            for (int c = 0; c < d; c++) dot += q[i * d + c] * k[j * d + c];
            s[j - first] = dot * 0.125f;
            top = fmaxf(top, s[j - first]);
        }
        for (int j = first; j <= i; j++) total += s[j - first] = expf(s[j - first] - top);
        for (int c = 0; c < e; c++) {
            float mixed = 0.0f;
            for (int j = first; j <= i; j++) mixed += s[j - first] * v[j * e + c];
            y[i * e + c] = mixed / total;
        }
    }
}
