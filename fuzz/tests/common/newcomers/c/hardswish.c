void hardswish(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++) {
        float t = x[i] + 3.0f;
        t = t < 0.0f ? 0.0f : t > 6.0f ? 6.0f : t;
        y[i] = x[i] * t / 6.0f;
    }
}
