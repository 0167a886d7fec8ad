#include <stdint.h>

void pick(const float *x, const int64_t *index, float *y, int b, int n, int k) {
    for (int i = 0; i < b; i++)
        for (int j = 0; j < k; j++) y[i * k + j] = x[i * n + index[i * k + j]];
}
