#include <math.h>

/* The sum is rescaled whenever the maximum grows. */
void lse(const float *x, float *y, int rows, int n) {
    for (int row = 0; row < rows; row++, x += n) {
        float top = -INFINITY, total = 0.0f;
        for (int i = 0; i < n; i++) {
            if (x[i] > top) {
                total = total * expf(top - x[i]) + 1.0f;
                top = x[i];
            } else {
                total += expf(x[i] - top);
            }
        }
        y[row] = top + logf(total);
    }
}
