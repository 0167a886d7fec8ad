/* backward.c: the gradients of rms_norm, row by row, one element at a time. Element i of a row is read for the last time
 * right before element i of the outputs is written, so that these may lie in the memory of inputs. Any axis and strides,
 * and of dtypes and weights what is_taken says. add_backward.c has the fused form. */
#include "../../common/overlap.h"

/* Absent tensors have no data, as in the calls. */
typedef struct {
    kf_tensor x, dy, dsum, weight, rstd;
    kf_tensor dx, dresidual, dw;
    int axis;
    float eps, weight_offset;
} gradient_call;

static real rstd_of(const gradient_call *call, const row *r) {
    if (is_present(&call->rstd)) return load(&call->rstd, at_row(r, &call->rstd));
    real total = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const real x = load(&call->x, at(r, &call->x, i));
        total += x * x;
    }
    return 1 / root(total / (real)r->n + (real)call->eps);
}

/* dy, times the weight where there is one. */
static real weighted_dy(const gradient_call *call, const row *r, int64_t i) {
    const real dy = load(&call->dy, at(r, &call->dy, i));
    return is_present(&call->weight) ? dy * scale_of(r, &call->weight, i, call->weight_offset) : dy;
}

/* The mean of h * m along the row. */
static real projection_of(const gradient_call *call, const row *r, real rstd) {
    real total = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const real h = load(&call->x, at(r, &call->x, i)) * rstd;
        total += h * weighted_dy(call, r, i);
    }
    return total / (real)r->n;
}

/* One row of dx, and the row's share of dw. */
static void differentiate_row(const gradient_call *call, const row *r, real *dw) {
    const real rstd = rstd_of(call, r), projection = projection_of(call, r, rstd);
    for (int64_t i = 0; i < r->n; i++) {
        const real h = load(&call->x, at(r, &call->x, i)) * rstd;
        real dx = rstd * (weighted_dy(call, r, i) - h * projection);
        if (dw != NULL) dw[i] += load(&call->dy, at(r, &call->dy, i)) * h;
        if (is_present(&call->dsum)) dx += load(&call->dsum, at(r, &call->dsum, i));
        store(&call->dx, at(r, &call->dx, i), dx);
        if (is_present(&call->dresidual)) store(&call->dresidual, at(r, &call->dresidual, i), dx);
    }
}

static void store_dw(const gradient_call *call, const real *dw) {
    for (int64_t i = 0; dw != NULL && i < call->dw.shape[0]; i++) store(&call->dw, i * call->dw.strides[0], dw[i]);
}

static void each_row(const gradient_call *call, real *dw) {
    row r = first_row(&call->x, call->axis);
    if (has_elements(&call->x)) {
        do differentiate_row(call, &r, dw);
        while (next_row(&r));
    }
    store_dw(call, dw); /* the sum over no rows is 0 */
}

/* False without memory. */
static bool detach_inputs(gradient_call *call, void *copies[3]) {
    return detach(&call->x, &call->dx, &call->dresidual, &copies[0]) &&
           detach(&call->dy, &call->dx, &call->dresidual, &copies[1]) &&
           detach(&call->dsum, &call->dx, &call->dresidual, &copies[2]);
}

static bool is_of(const kf_tensor *t, kf_dtype dtype) { return !is_present(t) || t->dtype == dtype; }

static bool is_x_or_f32(const gradient_call *call, const kf_tensor *t) {
    return is_of(t, call->x.dtype) || is_of(t, KF_F32);
}

/* Of dtypes, what `real` can hold and is not rounded twice on its way; of weights those of rank 1, whose gradient dw is. */
static bool is_taken(const gradient_call *call) {
    const kf_dtype x = call->x.dtype;
    if (sizeof(real) == sizeof(float) ? x == KF_F64 : x != KF_F64 && x != KF_F32) return false;
    if (!is_of(&call->dy, x) || !is_of(&call->dsum, x) || !is_of(&call->dx, x) || !is_of(&call->dresidual, x)) return false;
    if (!is_of(&call->rstd, KF_F32) || !is_x_or_f32(call, &call->weight) || !is_x_or_f32(call, &call->dw)) return false;
    return !is_present(&call->weight) || call->weight.rank == 1;
}

static int differentiate(const gradient_call *given) {
    if (!is_taken(given)) return KF_REJECTED;
    gradient_call call = *given;
    void *copies[3] = {NULL, NULL, NULL};
    real *dw = is_present(&call.dw) ? calloc((size_t)call.x.shape[call.axis] + 1, sizeof *dw) : NULL;
    const bool ready = (dw != NULL || !is_present(&call.dw)) &&
                       (!has_elements(&call.x) || detach_inputs(&call, copies));
    if (ready) each_row(&call, dw);
    for (int i = 0; i < 3; i++) free(copies[i]);
    free(dw);
    return ready ? KF_OK : KF_REJECTED;
}

int kf_rms_norm_backward(const kf_rms_norm_backward_call *call) {
    const gradient_call given = {
        .x = call->x, .dy = call->dy, .weight = call->weight, .rstd = call->rstd,
        .dx = call->dx, .dw = call->dw, .axis = call->axis, .eps = call->eps, .weight_offset = call->weight_offset,
    };
    return differentiate(&given);
}
