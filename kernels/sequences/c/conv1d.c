/* conv1d.c: one element at a time, its taps one after the other; any strides. */
#include "../../common/taken.h"

int kf_conv1d(const kf_conv1d_call *call) {
    const kf_tensor *x = &call->x, *weight = &call->weight, *bias = &call->bias, *y = &call->y;
    const kf_dtype dtype = x->dtype;
    if (!fits_float(x) || !is_of_or_f32(weight, dtype) || !is_of_or_f32(bias, dtype) || !is_of_or_f32(y, dtype))
        return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    const int64_t taps = weight->shape[1];
    row r = first_row(x, x->rank - 1);
    do {
        const int64_t channel = r.index[x->rank - 2];
        for (int64_t i = 0; i < r.n; i++) {
            float z = 0.0f;
            for (int64_t k = 0; k < taps; k++) {
                const int64_t from = i + k - (taps - 1);
                const float tap = load(weight, channel * weight->strides[0] + k * weight->strides[1]);
                z += (from < 0 ? 0.0f : load(x, at(&r, x, from))) * tap;
            }
            if (is_present(bias)) z += load(bias, channel * bias->strides[0]);
            store(y, at(&r, y, i), call->silu >= 0.5f ? z * (1.0f / (1.0f + expf(-z))) : z);
        }
    } while (next_row(&r));
    return KF_OK;
}
