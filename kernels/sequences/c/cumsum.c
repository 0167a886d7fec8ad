/* cumsum.c: one element after the other; any axis and strides, in place too. */
#include "../../common/taken.h"

int kf_cumsum(const kf_cumsum_call *call) {
    const kf_tensor *x = &call->x, *y = &call->y;
    if (!fits_float(x) || !is_of_or_f32(y, x->dtype)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, call->axis);
    do {
        float sum = 0.0f;
        for (int64_t i = 0; i < r.n; i++) {
            sum += load(x, at(&r, x, i));
            store(y, at(&r, y, i), sum);
        }
    } while (next_row(&r));
    return KF_OK;
}
