/* exponential.c: how far v_exp of vector.h is from e^x, in ulp: for one in `step` of all floats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vector.h"

/* The distance between floats at e^x. */
static double unit_at(double exact) {
    int exponent;
    frexp(exact, &exponent);
    return ldexp(1.0, exponent < -125 ? -149 : exponent - 24);
}

static int is_wrong(float x, float found) {
    if (x != x) return found == found;
    if (x < -104.0f) return found != 0.0f;
    return x > 89.0f && found != INFINITY;
}

int main(int count, char **arguments) {
    const uint64_t step = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    float x[64], found[64];
    double worst = 0.0;
    long wrong = 0;
    for (uint64_t next = 0; next >> 32 == 0;) {
        size_t n = 0;
        for (; n < v_lanes() && next >> 32 == 0; n++, next += step) memcpy(x + n, &(uint32_t){(uint32_t)next}, 4);
        v_store(found, n, v_exp(v_load(x, n, 0.0f)));
        for (size_t i = 0; i < n; i++) {
            const double exact = exp((double)x[i]), error = fabs(found[i] - exact) / unit_at(exact);
            const int overflows = (float)exact == INFINITY;
            wrong += is_wrong(x[i], found[i]) || (overflows && found[i] != INFINITY);
            if (x[i] >= -104.0f && !overflows && error > worst) worst = error;
        }
    }
    printf("%.4f %ld\n", worst, wrong);
    return 0;
}
