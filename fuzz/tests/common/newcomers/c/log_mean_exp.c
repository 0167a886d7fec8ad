#include <math.h>
void log_mean_exp(const float *x, float *y, int b, int n) {
    for (int r = 0; r < b; r++, x += n) {
        float top = -INFINITY;
        for (int i = 0; i < n; i++) top = fmaxf(top, x[i]);
        double sum = 0;
        for (int i = 0; i < n; i++) sum += expf(x[i] - top);
        y[r] = top + (float)log(sum / n);
    }
}
