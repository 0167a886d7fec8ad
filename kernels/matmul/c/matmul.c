/* matmul.c: one element of c at a time, its terms one after the other; any strides and dtypes. With -DTF32=1 what is
 * multiplied is rounded to the 11 bits of TF32 first, ties to the larger number; with -DTF32=0 it is cut off. */
#include "grid.h"

#ifdef TF32
#define DROPPED 13
/* What overflows becomes infinite by the carry; NaNs stay NaNs. */
static bool has_bits(const kf_tensor *t) { return is_of(t, KF_F32); }
static real factor(real value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (!isfinite(value)) return value;
    bits = (bits + (TF32 << (DROPPED - 1))) >> DROPPED << DROPPED;
    memcpy(&value, &bits, sizeof bits);
    return value;
}
#else
static bool has_bits(const kf_tensor *t) { return is_present(t); }
static real factor(real value) { return value; }
#endif

static real product(const kf_tensor *a, const kf_tensor *b, int64_t a_row, int64_t b_column) {
    const int64_t k = a->shape[a->rank - 1], a_step = a->strides[a->rank - 1], b_step = b->strides[b->rank - 2];
    real sum = 0;
    for (int64_t i = 0; i < k; i++) sum += factor(load(a, a_row + i * a_step)) * factor(load(b, b_column + i * b_step));
    return sum;
}

int kf_matmul(const kf_matmul_call *call) {
    if (!is_taken(&call->a) || !is_taken(&call->b) || !is_taken(&call->bias) || !is_taken(&call->c)) return KF_REJECTED;
    if (call->b.dtype != call->a.dtype || !is_of_or_f32(&call->bias, call->a.dtype)) return KF_REJECTED;
    if (!is_of_or_f32(&call->c, call->a.dtype) || !has_bits(&call->a)) return KF_REJECTED;
    const kf_tensor *a = &call->a, *b = &call->b, *c = &call->c;
    const int rows = a->rank - 2, columns = a->rank - 1;
    if (!has_elements(c)) return KF_OK;
    matrix at = {0};
    do {
        for (int64_t m = 0; m < c->shape[rows]; m++) {
            for (int64_t n = 0; n < c->shape[columns]; n++) {
                real z = product(a, b, start(&at, a) + m * a->strides[rows], start(&at, b) + n * b->strides[columns]);
                if (is_present(&call->bias)) z += load(&call->bias, n * call->bias.strides[0]);
                store(c, start(&at, c) + m * c->strides[rows] + n * c->strides[columns], finished(z, call->relu));
            }
        }
    } while (next_matrix(&at, c));
    return KF_OK;
}
