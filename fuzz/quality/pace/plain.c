/* plain.c: a kernel of rms_norm as a program for one case. Standard input is rows and n as int64, eps as f32, and x as f32,
 * row by row; standard output is y. */
#include <stdio.h>
#include <stdlib.h>

#include "kernelfuzz.h"

static kf_tensor tensor(void *data, int64_t rows, int64_t n)
{
    const kf_tensor made = {.data = data, .dtype = KF_F32, .rank = 2, .shape = {rows, n}, .strides = {n, 1}};
    return made;
}

int main(void)
{
    int64_t shape[2];
    float eps;
    if (fread(shape, sizeof *shape, 2, stdin) != 2 || fread(&eps, sizeof eps, 1, stdin) != 1)
        return 2;
    const size_t count = (size_t)(shape[0] * shape[1]);
    float *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
    if (x == NULL || y == NULL || fread(x, sizeof *x, count, stdin) != count)
        return 2;
    const kf_rms_norm_call call = {
        .x = tensor(x, shape[0], shape[1]), .y = tensor(y, shape[0], shape[1]), .axis = 1, .eps = eps,
    };
    if (kf_rms_norm(&call) != KF_OK)
        return 3;
    return fwrite(y, sizeof *y, count, stdout) == count ? 0 : 2;
}
