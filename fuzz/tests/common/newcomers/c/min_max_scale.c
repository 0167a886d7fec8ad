void min_max_scale(const float *x, float *y, int b, int n) {
    for (int r = 0; r < b; r++, x += n, y += n) {
        float lo = x[0], hi = x[0];
        for (int i = 1; i < n; i++) {
            if (x[i] < lo) lo = x[i];
            if (x[i] > hi) hi = x[i];
        }
        float inv = 1.0f / (hi - lo + 1e-8f);
        for (int i = 0; i < n; i++) y[i] = (x[i] - lo) * inv;
    }
}
