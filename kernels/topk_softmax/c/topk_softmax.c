/* topk_softmax.c: the softmax of each row first, then its largest elements, which are found one after the other. */
#include "picks.h"

int kf_topk_softmax(const kf_topk_softmax_call *call) {
    const kf_tensor *x = &call->x, *weight = &call->weight;
    if (!takes(x, weight, &call->expert)) return KF_REJECTED;
    if (!has_elements(x)) return KF_OK;
    row r = first_row(x, call->axis);
    do {
        const float greatest = next_pick(x, &r, NONE).value;
        float mass = 0.0f, kept = 0.0f;
        for (int64_t i = 0; i < r.n; i++) mass += expf(load(x, at(&r, x, i)) - greatest);
        pick each = NONE;
        for (int64_t j = 0; j < weight->shape[weight->rank - 1]; j++) {
            each = next_pick(x, &r, each);
            kept += expf(each.value - greatest) / mass;
        }
        write_picks(&r, weight, &call->expert, greatest, mass, call->renormalise > 0 ? kept : 1.0f);
    } while (next_row(&r));
    return KF_OK;
}
