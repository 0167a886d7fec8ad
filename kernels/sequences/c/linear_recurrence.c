/* linear_recurrence.c: one state after the other; any axis and strides, in place too. */
#include "../../common/taken.h"

int kf_linear_recurrence(const kf_linear_recurrence_call *call) {
    const kf_tensor *x = &call->x, *gate = &call->gate, *h0 = &call->h0, *hs = &call->hs;
    const kf_dtype dtype = x->dtype;
    if (!fits_float(x) || !is_of_or_f32(gate, dtype) || !is_of_or_f32(h0, dtype) || !is_of_or_f32(hs, dtype))
        return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, call->axis);
    do {
        float state = is_present(h0) ? load(h0, at_row(&r, h0)) : 0.0f;
        for (int64_t i = 0; i < r.n; i++) {
            state = load(gate, at(&r, gate, i)) * state + load(x, at(&r, x, i));
            store(hs, at(&r, hs, i), state);
        }
    } while (next_row(&r));
    return KF_OK;
}
