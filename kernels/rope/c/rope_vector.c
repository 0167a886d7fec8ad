/* rope_vector.c: halves of f32 whose rows are dense, by vectors of whatever instruction set it is built for. */
#include "../../common/overlap.h"
#include "../../common/taken.h"
#include "../../common/vector.h"

/* Both halves are read before either is written. */
static void turn(const float *a, const float *b, const float *cos, const float *sin, float *low, float *high, size_t n) {
    for (size_t i = 0; i < n; i += v_lanes()) {
        const size_t left = n - i;
        const vector x = v_load(a + i, left, 0.0f), y = v_load(b + i, left, 0.0f);
        const vector c = v_load(cos + i, left, 0.0f), s = v_load(sin + i, left, 0.0f);
        v_store(low + i, left, v_subtract(v_multiply(x, c), v_multiply(y, s)));
        v_store(high + i, left, v_add(v_multiply(y, c), v_multiply(x, s)));
    }
}

static const float *at_place(const kf_tensor *table, int64_t t) { return (const float *)table->data + t * table->strides[0]; }

int kf_rope(const kf_rope_call *call) {
    const kf_tensor *x = &call->x, *y = &call->y, *cos = &call->cos, *sin = &call->sin;
    if (x->dtype != KF_F32 || y->dtype != KF_F32 || cos->dtype != KF_F32 || sin->dtype != KF_F32) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    const int run = x->rank - 1;
    if (!has_dense_rows(x, run) || !has_dense_rows(y, run) || overlaps(x, y)) return KF_REJECTED;
    if (!has_dense_rows(cos, 1) || !has_dense_rows(sin, 1)) return KF_REJECTED;
    row r = first_row(x, run);
    do {
        const float *from = (const float *)x->data + at(&r, x, 0);
        float *to = (float *)y->data + at(&r, y, 0);
        const int64_t t = r.index[run - 2], piece = r.index[run - 1];
        if (piece == 0)
            turn(from, from + x->strides[run - 1], at_place(cos, t), at_place(sin, t), to, to + y->strides[run - 1], (size_t)r.n);
        else if (piece > 1) memmove(to, from, (size_t)r.n * sizeof *to);
    } while (next_row(&r));
    return KF_OK;
}
