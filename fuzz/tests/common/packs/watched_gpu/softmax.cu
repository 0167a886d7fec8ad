/* A softmax whose threads share the maximum and the sum, and one in which they do not wait for one another. */
#include <math_constants.h>

__device__ float combined(float mine, float *parts, bool adds, bool waits) {
    parts[threadIdx.x] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (waits || half > 16) __syncthreads();
        if (threadIdx.x < half) {
            const float other = parts[threadIdx.x + half];
            parts[threadIdx.x] = adds ? parts[threadIdx.x] + other
                                      : isnan(other) || other > parts[threadIdx.x] ? other : parts[threadIdx.x];
        }
    }
    __syncthreads();
    const float found = parts[0];
    __syncthreads();
    return found;
}

__device__ void row(const float *x, float *y, int n, bool waits) {
    __shared__ float parts[256];
    float top = -CUDART_INF_F, total = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = isnan(x[i]) || x[i] > top ? x[i] : top;
    top = combined(top, parts, false, waits);
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += expf(x[i] - top);
    total = combined(total, parts, true, waits);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - top) / total;
}

__global__ void softmax_waits(const float *x, float *y, int n) {
    row(x + (size_t)blockIdx.x * n, y + (size_t)blockIdx.x * n, n, true);
}

__global__ void softmax_races(const float *x, float *y, int n) {
    row(x + (size_t)blockIdx.x * n, y + (size_t)blockIdx.x * n, n, false);
}
