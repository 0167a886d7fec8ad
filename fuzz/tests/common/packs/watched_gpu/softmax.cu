/* A softmax whose threads share the maximum and the sum; one in which threads of a warp do not wait for one another, of
   which racecheck only warns, and one in which a warp may write where another has not read yet. */
#include <math_constants.h>

enum { WAITS, IN_STEP, RACES };

__device__ float combined(float mine, float *parts, bool adds, int kind) {
    parts[threadIdx.x] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (kind != IN_STEP || half > 16) __syncthreads();
        if (threadIdx.x < half) {
            const float other = parts[threadIdx.x + half];
            parts[threadIdx.x] = adds ? parts[threadIdx.x] + other
                                      : isnan(other) || other > parts[threadIdx.x] ? other : parts[threadIdx.x];
        }
    }
    __syncthreads();
    const float found = parts[0];
    if (kind != RACES) __syncthreads();
    return found;
}

__device__ void row(const float *x, float *y, int n, int kind) {
    __shared__ float parts[256];
    float top = -CUDART_INF_F, total = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = isnan(x[i]) || x[i] > top ? x[i] : top;
    top = combined(top, parts, false, kind);
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += expf(x[i] - top);
    total = combined(total, parts, true, kind);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - top) / total;
}

__global__ void softmax_waits(const float *x, float *y, int n) {
    row(x + (size_t)blockIdx.x * n, y + (size_t)blockIdx.x * n, n, WAITS);
}

__global__ void softmax_races(const float *x, float *y, int n) {
    row(x + (size_t)blockIdx.x * n, y + (size_t)blockIdx.x * n, n, RACES);
}

__global__ void softmax_in_step(const float *x, float *y, int n) {
    row(x + (size_t)blockIdx.x * n, y + (size_t)blockIdx.x * n, n, IN_STEP);
}
