#include <math.h>
void pairwise_distance(const float *a, const float *b, float *y, int m, int n, int k) {
    for (int i0 = 0; i0 < m; i0 += 4)
        for (int j = 0; j < n; j++)
            for (int i = i0; i < (i0 + 4 < m ? i0 + 4 : m); i++) {
                float s[4] = {0, 0, 0, 0};
                int t = 0;
                for (; t + 4 <= k; t += 4)
                    for (int l = 0; l < 4; l++) {
                        float d = a[i * k + t + l] - b[j * k + t + l];
                        s[l] += d * d;
                    }
                for (; t < k; t++) {
                    float d = a[i * k + t] - b[j * k + t];
                    s[0] += d * d;
                }
                y[i * n + j] = sqrtf((s[0] + s[1]) + (s[2] + s[3]));
            }
}
