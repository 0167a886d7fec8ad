/* What emitted kernels do along a dimension: pieces that `reductions.py` chooses and fills. T is a dtype, and D its name;
 * R rounds to it; NEXT adds a term; NAME, TERMS, WIDTH, BLOCK, LANES and FOUND are filled in. */
/* ==== tree */

COMMON T tree_D(T *part, int64_t width) {
    for (; width > 1; width -= width / 2) {
        for (int64_t j = 0; j < width / 2; j++)
            part[j] = R(part[j] + part[width / 2 + j]);
        if (width % 2)
            part[width / 2] = part[width - 1];
    }
    return part[0];
}
/* ==== sequential */

static T NAME(TERMS, int64_t n) {
    T sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum = NEXT(sum, k);
    return sum;
}
/* ==== reversed */

static T NAME(TERMS, int64_t n) {
    T sum = 0;
    for (int64_t k = n - 1; k >= 0; k--)
        sum = NEXT(sum, k);
    return sum;
}
/* ==== halves */

static T NAME(TERMS, int64_t n) {
    T sum = 0;
    for (int64_t k = 0; k < n; k += 2)
        sum = NEXT(sum, k);
    for (int64_t k = 1; k < n; k += 2)
        sum = NEXT(sum, k);
    return sum;
}
/* ==== lanes */

static T NAME(TERMS, int64_t n) {
    T part[BLOCK] = {0};
    int64_t k = 0;
    for (; k + BLOCK <= n; k += BLOCK)
        for (int64_t j = 0; j < BLOCK; j++)
            part[j] = NEXT(part[j], k + j);
/* ==== predicated */
    for (; k < n; k += WIDTH)
        for (int64_t j = 0; j < WIDTH && k + j < n; j++)
            part[j] = NEXT(part[j], k + j);
    return tree_D(part, BLOCK);
}
/* ==== scalar */
    T sum = tree_D(part, BLOCK);
    for (; k < n; k++)
        sum = NEXT(sum, k);
    return sum;
}
/* ==== tiles */

static T NAME(TERMS, int64_t n) {
    T part[WIDTH] = {0};
    for (int64_t k = 0; k < n; k++)
        part[k % WIDTH] = NEXT(part[k % WIDTH], k);
    return tree_D(part, WIDTH);
}
/* ==== pairwise */

static T NAME(TERMS, int64_t n) {
    const int64_t blocks = (n + WIDTH - 1) / WIDTH;
    if (!blocks)
        return 0;
    T *part = calloc((size_t)blocks, sizeof(T));
    for (int64_t k = 0; k < n; k++)
        part[k / WIDTH] = NEXT(part[k / WIDTH], k);
    const T sum = tree_D(part, blocks);
    free(part);
    return sum;
}
/* ==== max */

static T NAME(const T *a, int64_t n) {
    T most = -INFINITY;
    for (int64_t k = 0; k < n; k++)
        most = a[k] > most || isnan(a[k]) ? a[k] : most;
    return most;
}
/* ==== online */

static T NAME(const T *a, int64_t n) {
    const int64_t lanes = LANES;
    T *most = malloc((size_t)(n + 1) * sizeof(T)), *sum = malloc((size_t)(n + 1) * sizeof(T));
    for (int64_t k = 0; k < n; k++)
        most[k] = a[k], sum[k] = 1;
    for (int64_t apart = lanes, last = n; last > 1; last = apart, apart = (apart + 1) / 2) {
        for (int64_t k = apart; k < last; k++) {
            const int64_t into = k % apart;
            const T larger = most[into] >= most[k] ? most[into] : most[k];
            const T steps[2] = {R(most[into] - larger), R(most[k] - larger)};
            T sums[2] = {sum[into], sum[k]};
            for (int each = 0; each < 2; each++)
                if (larger != -INFINITY && steps[each] != 0)
                    sums[each] = R(sums[each] * R(EXP(steps[each])));
            most[into] = larger;
            sum[into] = R(sums[0] + sums[1]);
        }
    }
    const T found = n ? sum[0] : 0;
    free(most);
    free(sum);
    return found;
}
/* ==== welford */

static T NAME(const T *a, int64_t n) {
    const int64_t lanes = LANES;
    T *mean = malloc((size_t)(n + 1) * sizeof(T)), *squares = calloc((size_t)(n + 1), sizeof(T));
    int64_t *count = malloc((size_t)(n + 1) * sizeof(int64_t));
    for (int64_t k = 0; k < n; k++)
        mean[k] = a[k], count[k] = 1;
    for (int64_t apart = lanes, last = n; last > 1; last = apart, apart = (apart + 1) / 2) {
        for (int64_t k = apart; k < last; k++) {
            const int64_t into = k % apart;
            const T away = R(mean[k] - mean[into]);
            const T share = R((T)count[k] / (T)(count[into] + count[k]));
            mean[into] = R(mean[into] + R(away * share));
            const T more = count[k] == 1 ? R(away * R(mean[k] - mean[into]))
                                         : R(R(away * away) * R(share * (T)count[into]));
            squares[into] = R(R(squares[into] + squares[k]) + more);
            count[into] += count[k];
        }
    }
    const T found = n ? FOUND[0] : NAN;
    free(mean);
    free(squares);
    free(count);
    return found;
}
/* ==== place_by_place */

static void NAME(T *a, T *h, T start, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        start = NEXT(a[k], start, h[k]);
        h[k] = start;
    }
}
/* ==== joined */

COMMON void joined_NAME(T *a, T *h, int64_t before, int64_t k) {
    h[k] = NEXT(a[k], h[before], h[k]);
    a[k] = R(a[before] * a[k]);
}
/* ==== scan_blocks */

static void NAME(T *a, T *h, T start, int64_t n) {
    for (int64_t first = 0; first < n; first += 8) {
        const int64_t end = first + 8 < n ? first + 8 : n;
        for (int64_t k = first + 1; k < end; k++)
            joined_NAME(a, h, k - 1, k);
        for (int64_t k = first; first && k < end; k++)
            joined_NAME(a, h, first - 1, k);
    }
/* ==== scan_tree */

static void NAME(T *a, T *h, T start, int64_t n) {
    for (int64_t apart = 1; apart < n; apart *= 2)
        for (int64_t k = n - 1; k >= apart; k--)
            joined_NAME(a, h, k - apart, k);
/* ==== started */
    for (int64_t k = 0; k < n; k++)
        h[k] = NEXT(a[k], start, h[k]);
}
/* ==== ordered */

COMMON void ordered_T(const T *a, int64_t n, int64_t *order, int last) {
    int64_t *merged = malloc((size_t)(n + 1) * sizeof(int64_t));
    for (int64_t k = 0; k < n; k++)
        order[k] = last ? n - 1 - k : k;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t from = 0; from < n; from += 2 * width) {
            const int64_t middle = from + width < n ? from + width : n;
            const int64_t end = from + 2 * width < n ? from + 2 * width : n;
            int64_t left = from, right = middle;
            for (int64_t k = from; k < end; k++) {
                const int takes = right >= end || (left < middle && !(a[order[right]] > a[order[left]]));
                merged[k] = takes ? order[left++] : order[right++];
            }
        }
        memcpy(order, merged, (size_t)n * sizeof(int64_t));
    }
    free(merged);
}
