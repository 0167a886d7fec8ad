#include <math.h>
void softmax_entropy(const float *logits, float *y, int rows, int n) {
    for (int r = 0; r < rows; r++, logits += n) {
        float top = logits[0], s = 0, t = 0;
        for (int i = 1; i < n; i++) top = fmaxf(top, logits[i]);
        for (int i = 0; i < n; i++) {
            float z = logits[i] - top, e = expf(z);
            s += e;
            t -= z * e;
        }
        y[r] = logf(s) + t / s;
    }
}
