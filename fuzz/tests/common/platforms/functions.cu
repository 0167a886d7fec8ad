/* The functions of CUDA, over arrays. */
#define OF(name, value)                                                                             \
    extern "C" __global__ void kf_##name(const float *a, const float *b, float *c, int n) {         \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                                        \
        if (i >= n) return;                                                                         \
        const float x = a[i], y = b[i];                                                             \
        (void)y;                                                                                    \
        c[i] = value;                                                                               \
    }

OF(exp, expf(x))
OF(exp2, exp2f(x))
OF(expm1, expm1f(x))
OF(log, logf(x))
OF(log2, log2f(x))
OF(log1p, log1pf(x))
OF(tanh, tanhf(x))
OF(sqrt, sqrtf(x))
OF(sin, sinf(x))
OF(cos, cosf(x))
OF(erf, erff(x))
OF(atan, atanf(x))
OF(rsqrt, rsqrtf(x))
OF(sigmoid, 1.0f / (1.0f + expf(-x)))
OF(one_over_sqrt, 1.0f / sqrtf(x))
OF(divide, x / y)
OF(add, x + y)
OF(multiply, x * y)
OF(square_plus, x * x + y)
