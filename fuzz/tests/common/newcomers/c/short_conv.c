void short_conv(const float *x, const float *w, float *y, int b, int c, int t) {
    for (int row = 0; row < b * c; row++)
        for (int i = 0; i < t; i++) {
            float total = 0.0f;
            for (int k = 0; k < 4; k++)
                if (i + k >= 3) total += w[row % c * 4 + k] * x[row * t + i + k - 3];
            y[row * t + i] = total;
        }
}
