/* softmax_of_topk.c: the largest elements of each row first, then the softmax of these. */
#include "picks.h"

int kf_softmax_of_topk(const kf_softmax_of_topk_call *call) {
    const kf_tensor *x = &call->x, *weight = &call->weight;
    if (!takes(x, weight, &call->expert)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, call->axis);
    do {
        const float greatest = next_pick(x, &r, NONE).value;
        float mass = 0.0f;
        pick each = NONE;
        for (int64_t j = 0; j < weight->shape[weight->rank - 1]; j++) {
            each = next_pick(x, &r, each);
            mass += expf(each.value - greatest);
        }
        write_picks(&r, weight, &call->expert, greatest, mass, 1.0f);
    } while (next_row(&r));
    return KF_OK;
}
