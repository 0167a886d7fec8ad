#include <math.h>

void max_pool(const float *x, float *y, int b, int c, int h, int w) {
    for (int image = 0; image < b * c; image++)
        for (int i = 0; i < h / 2; i++)
            for (int j = 0; j < w / 2; j++) {
                const float *at = x + (image * h + 2 * i) * w + 2 * j;
                *y++ = fmaxf(fmaxf(at[0], at[1]), fmaxf(at[w], at[w + 1]));
            }
}
