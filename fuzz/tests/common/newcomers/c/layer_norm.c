#include <math.h>

/* Welford's mean and squares, in one pass. */
void layer_norm(const float *x, const float *w, const float *b, float *y, int rows, int n) {
    for (int row = 0; row < rows; row++, x += n, y += n) {
        float mean = 0.0f, squares = 0.0f;
        for (int i = 0; i < n; i++) {
            float apart = x[i] - mean;
            mean += apart / (float)(i + 1);
            squares += apart * (x[i] - mean);
        }
        float r = 1.0f / sqrtf(squares / (float)n + 1e-5f);
        for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * r * w[i] + b[i];
    }
}
