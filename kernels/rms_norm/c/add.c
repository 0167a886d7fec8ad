/* add.c: fused_add_rms_norm, one row at a time through a buffer: whatever output lies in the memory of whatever input, a
 * row has been read before any of it is written. Any dtypes, axis and strides. */
#include "../../common/overlap.h"

/* A sum as it is normalised: as it is stored, or as it was calculated. */
static real normalised(kf_dtype held, real sum) {
#ifdef UNROUNDED
    (void)held;
    return sum;
#else
    return rounded(held, sum);
#endif
}

static void add_row(const kf_fused_add_rms_norm_call *call, const row *r, real *sums) {
    const kf_dtype held = is_present(&call->sum) ? call->sum.dtype : call->x.dtype;
    for (int64_t i = 0; i < r->n; i++) {
        const real x = load(&call->x, at(r, &call->x, i));
        sums[i] = normalised(held, x + load(&call->residual, at(r, &call->residual, i)));
    }
}

static real reciprocal_rms_of(const real *values, int64_t n, float eps) {
    real total = 0;
    for (int64_t i = 0; i < n; i++) total += values[i] * values[i];
    return 1 / root(total / (real)n + (real)eps);
}

static void store_row(const kf_fused_add_rms_norm_call *call, const row *r, const real *sums, real rstd) {
    for (int64_t i = 0; i < r->n; i++) {
        real y = sums[i] * rstd;
        if (is_present(&call->weight)) y *= scale_of(r, &call->weight, i, call->weight_offset);
        store(&call->y, at(r, &call->y, i), y);
        if (is_present(&call->sum)) store(&call->sum, at(r, &call->sum, i), sums[i]);
    }
    if (is_present(&call->rstd)) store(&call->rstd, at_row(r, &call->rstd), rstd);
}

static void each_row(const kf_fused_add_rms_norm_call *call, real *sums) {
    row r = first_row(&call->x, call->axis);
    do {
        add_row(call, &r, sums);
        store_row(call, &r, sums, reciprocal_rms_of(sums, r.n, call->eps));
    } while (next_row(&r));
}

int kf_fused_add_rms_norm(const kf_fused_add_rms_norm_call *given) {
    if (!has_elements(&given->x)) return KF_OK;
    kf_fused_add_rms_norm_call call = *given;
    void *copies[2] = {NULL, NULL};
    real *sums = malloc((size_t)call.x.shape[call.axis] * sizeof *sums);
    const bool ready = sums != NULL && detach(&call.x, &call.y, &call.sum, &copies[0]) &&
                       detach(&call.residual, &call.y, &call.sum, &copies[1]);
    if (ready) each_row(&call, sums);
    free(copies[0]);
    free(copies[1]);
    free(sums);
    return ready ? KF_OK : KF_REJECTED;
}
