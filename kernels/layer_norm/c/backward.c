/* backward.c: the gradients of layer_norm, row by row, one element at a time: two sums along the row, then dx, and the
 * row's share of dw and db. Element i of a row is read for the last time right before element i of dx is written, so
 * that dx may lie in the memory of x or dy. Any axis and strides; of dtypes what is_taken says. */
#include "../../common/overlap.h"
#include "../../common/taken.h"

/* What a row's elements have in common. */
typedef struct {
    real mean, rstd;
    real of_g, of_gh; /* means of g and of g * h */
} facts;

static real centred_at(const kf_layer_norm_backward_call *call, const row *r, real mean, int64_t i) {
    return load(&call->x, at(r, &call->x, i)) - mean;
}

/* dy, times the weight where there is one. */
static real weighted_dy(const kf_layer_norm_backward_call *call, const row *r, int64_t i) {
    const real dy = load(&call->dy, at(r, &call->dy, i));
    return is_present(&call->weight) ? dy * load(&call->weight, at_column(r, &call->weight, i)) : dy;
}

static real mean_of(const kf_layer_norm_backward_call *call, const row *r) {
    if (is_present(&call->mean)) return load(&call->mean, at_row(r, &call->mean));
    real total = 0;
    for (int64_t i = 0; i < r->n; i++) total += load(&call->x, at(r, &call->x, i));
    return total / (real)r->n;
}

static real rstd_of(const kf_layer_norm_backward_call *call, const row *r, real mean) {
    if (is_present(&call->rstd)) return load(&call->rstd, at_row(r, &call->rstd));
    real total = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const real centred = centred_at(call, r, mean, i);
        total += centred * centred;
    }
    return 1 / root(total / (real)r->n + (real)call->eps);
}

static facts facts_of(const kf_layer_norm_backward_call *call, const row *r) {
    facts f = {.mean = mean_of(call, r)};
    f.rstd = rstd_of(call, r, f.mean);
    for (int64_t i = 0; i < r->n; i++) {
        const real g = weighted_dy(call, r, i);
        f.of_g += g;
        f.of_gh += g * (centred_at(call, r, f.mean, i) * f.rstd);
    }
    f.of_g /= (real)r->n;
    f.of_gh /= (real)r->n;
    return f;
}

/* One row of dx, and the row's share of dw and db where they are wanted. */
static void differentiate_row(const kf_layer_norm_backward_call *call, const row *r, real *dw, real *db) {
    const facts f = facts_of(call, r);
    for (int64_t i = 0; i < r->n; i++) {
        const real dy = load(&call->dy, at(r, &call->dy, i)), h = centred_at(call, r, f.mean, i) * f.rstd;
        const real dx = f.rstd * (weighted_dy(call, r, i) - f.of_g - h * f.of_gh);
        if (dw != NULL) dw[i] += dy * h;
        if (db != NULL) db[i] += dy;
        store(&call->dx, at(r, &call->dx, i), dx);
    }
}

static void store_columns(const kf_tensor *t, const real *sums) {
    for (int64_t i = 0; sums != NULL && i < t->shape[0]; i++) store(t, i * t->strides[0], sums[i]);
}

static void each_row(const kf_layer_norm_backward_call *call, real *dw, real *db) {
    row r = first_row(&call->x, call->axis);
    if (has_elements(&call->x)) {
        do differentiate_row(call, &r, dw, db);
        while (next_row(&r));
    }
    store_columns(&call->dw, dw); /* the sum over no rows is 0 */
    store_columns(&call->db, db);
}

static bool is_taken(const kf_layer_norm_backward_call *call) {
    const kf_dtype x = call->x.dtype;
    return fits_float(&call->x) && is_of(&call->dy, x) && is_of(&call->dx, x) && is_of(&call->mean, KF_F32) &&
           is_of(&call->rstd, KF_F32) && is_of_or_f32(&call->weight, x) && is_column(&call->weight) &&
           is_of_or_f32(&call->dw, x) && is_of_or_f32(&call->db, x);
}

/* Zeros for the sums of a tensor of columns; NULL where it is absent, or there is no memory. */
static real *sums_for(const kf_tensor *t) {
    return is_present(t) ? calloc((size_t)t->shape[0] + 1, sizeof(real)) : NULL;
}

int kf_layer_norm_backward(const kf_layer_norm_backward_call *given) {
    if (!is_taken(given)) return KF_REJECTED;
    kf_layer_norm_backward_call call = *given;
    void *copies[2] = {NULL, NULL};
    real *dw = sums_for(&call.dw), *db = sums_for(&call.db);
    const bool ready =
        (dw != NULL || !is_present(&call.dw)) && (db != NULL || !is_present(&call.db)) &&
        (!has_elements(&call.x) || (detach(&call.x, &call.dx, &call.dx, &copies[0]) && detach(&call.dy, &call.dx, &call.dx, &copies[1])));
    if (ready) each_row(&call, dw, db);
    free(copies[0]);
    free(copies[1]);
    free(dw);
    free(db);
    return ready ? KF_OK : KF_REJECTED;
}
