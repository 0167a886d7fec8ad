/* vzeroupper.c: preloaded into QEMU on x86-64. The code that QEMU makes of long vectors leaves the upper halves of AVX
 * registers in use. Its own is SSE, and calls fma of the C library, which is AVX: with upper halves in use, some
 * processors take long for every such change; on a Xeon with AMX that was three quarters of the time at 256 bits. So they
 * are given up with each fma, as any function may do by the calling convention. The values are those of the C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <immintrin.h>

static float (*of_floats)(float, float, float);
static double (*of_doubles)(double, double, double);

__attribute__((constructor)) static void find(void) {
    of_floats = (float (*)(float, float, float))dlsym(RTLD_NEXT, "fmaf");
    of_doubles = (double (*)(double, double, double))dlsym(RTLD_NEXT, "fma");
}

float fmaf(float a, float b, float c) {
    const float result = of_floats(a, b, c);
    _mm256_zeroupper();
    return result;
}

double fma(double a, double b, double c) {
    const double result = of_doubles(a, b, c);
    _mm256_zeroupper();
    return result;
}
