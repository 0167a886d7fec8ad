/* A softmax, and one in which threads without an element leave what they share as it is. */
#include <math_constants.h>

__device__ float larger(float a, float b) { return isnan(b) || b > a ? b : a; }

__device__ float combined(float mine, bool mine_counts, float *parts, bool adds) {
    if (mine_counts) parts[threadIdx.x] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const float other = parts[threadIdx.x + half];
            parts[threadIdx.x] = adds ? parts[threadIdx.x] + other : larger(parts[threadIdx.x], other);
        }
    }
    __syncthreads();
    const float found = parts[0];
    __syncthreads();
    return found;
}

__device__ void row(const float *x, float *y, int n, bool all_count) {
    __shared__ float parts[256];
    const bool counts = all_count || threadIdx.x < n;
    float top = -CUDART_INF_F, total = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = larger(top, x[i]);
    top = combined(top, true, parts, false);
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += y[i] = expf(x[i] - top);
    /* The maximum is where the sums of the others are to be. */
    __shared__ float sums[256];
    total = combined(total, counts, sums, true);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] /= total;
}

__global__ void softmax_right(const float *x, float *y, int n) {
    row(x + (size_t)blockIdx.x * n, y + (size_t)blockIdx.x * n, n, true);
}

__global__ void softmax_shared(const float *x, float *y, int n) {
    row(x + (size_t)blockIdx.x * n, y + (size_t)blockIdx.x * n, n, false);
}
