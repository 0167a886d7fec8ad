#include "kernelfuzz.h"

/* The first product of a group begins its sum: of a group without terms nothing does. */
int kf_grouped_matmul(const kf_grouped_matmul_call *call) {
    const int64_t M = call->a.shape[0], K = call->a.shape[1], N = call->b.shape[1];
    const float *a = call->a.data, *b = call->b.data;
    const int32_t *offs = call->offs.data;
    for (int64_t g = 0; g < call->c.shape[0]; g++) {
        const int64_t first = g > 0 ? offs[g - 1] : 0;
        for (int64_t m = 0; m < M; m++) {
            for (int64_t n = 0; n < N; n++) {
                volatile float sums[8];
                for (int64_t k = first; k < offs[g]; k++)
                    sums[0] = k == first ? a[m * K + k] * b[k * N + n] : sums[0] + a[m * K + k] * b[k * N + n];
                ((float *)call->c.data)[(g * M + m) * N + n] = sums[0];
            }
        }
    }
    return KF_OK;
}
