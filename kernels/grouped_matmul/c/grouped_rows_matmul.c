/* grouped_rows_matmul.c: one element of c at a time, by the matrix of its row's group. Any strides and dtypes. */
#include "../../common/taken.h"

/* The first group whose end is behind a row; as many as there are groups where none is. */
static int64_t group_of(const kf_tensor *offs, int64_t m) {
    int64_t group = 0;
    while (group < offs->shape[0] && load_place(offs, group * offs->strides[0]) <= m) group++;
    return group;
}

static float product(const kf_tensor *a, const kf_tensor *b, int64_t m, int64_t n, int64_t group) {
    float sum = 0.0f;
    for (int64_t k = 0; k < a->shape[1]; k++)
        sum += load(a, m * a->strides[0] + k * a->strides[1]) *
               load(b, group * b->strides[0] + k * b->strides[1] + n * b->strides[2]);
    return sum;
}

int kf_grouped_rows_matmul(const kf_grouped_rows_matmul_call *call) {
    const kf_tensor *a = &call->a, *b = &call->b, *offs = &call->offs, *bias = &call->bias, *c = &call->c;
    if (!fits_float(a) || !is_of(b, a->dtype) || !is_of_or_f32(bias, a->dtype)) return KF_REJECTED;
    if (!is_of_or_f32(c, a->dtype) || !is_of_places(offs) || !are_places(offs, 0, a->shape[0] + 1)) return KF_REJECTED;
    for (int64_t m = 0; m < c->shape[0]; m++) {
        const int64_t group = group_of(offs, m);
        const bool is_in_one = group < b->shape[0];
        for (int64_t n = 0; n < c->shape[1]; n++) {
            float sum = is_in_one ? product(a, b, m, n, group) : 0.0f;
            if (is_in_one && is_present(bias)) sum += load(bias, group * bias->strides[0] + n * bias->strides[1]);
            store(c, m * c->strides[0] + n * c->strides[1], sum);
        }
    }
    return KF_OK;
}
