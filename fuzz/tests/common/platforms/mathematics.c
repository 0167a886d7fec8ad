/* The functions of C's library, over arrays: what is measured of platforms. */
#include <math.h>

#define OVER(name, value)                                                     \
    void name(const float *x, const float *y, float *z, long n) {             \
        (void)y;                                                              \
        for (long i = 0; i < n; i++) z[i] = value;                            \
    }

OVER(kf_exp, expf(x[i]))
OVER(kf_exp2, exp2f(x[i]))
OVER(kf_expm1, expm1f(x[i]))
OVER(kf_log, logf(x[i]))
OVER(kf_log2, log2f(x[i]))
OVER(kf_log1p, log1pf(x[i]))
OVER(kf_sin, sinf(x[i]))
OVER(kf_cos, cosf(x[i]))
OVER(kf_tanh, tanhf(x[i]))
OVER(kf_erf, erff(x[i]))
OVER(kf_atan, atanf(x[i]))
OVER(kf_sqrt, sqrtf(x[i]))
OVER(kf_divide, x[i] / y[i])
OVER(kf_add, x[i] + y[i])
OVER(kf_multiply, x[i] * y[i])
OVER(kf_square_plus, x[i] * x[i] + y[i])
