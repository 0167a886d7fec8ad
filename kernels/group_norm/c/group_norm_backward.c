/* group_norm_backward.c: gradients by the weight and bias of each channel, then by the elements of each group. */
#include "groups.h"

typedef struct {
    float mean, rstd;
} statistics;

static statistics statistics_of(const kf_group_norm_backward_call *call, const group *r) {
    const kf_tensor *x = &call->x, *mean = &call->mean, *rstd = &call->rstd;
    const float known = is_present(mean) ? load(mean, at_group(r, mean)) : mean_of(x, r);
    return (statistics){known, is_present(rstd) ? load(rstd, at_group(r, rstd)) : rstd_of(x, r, known, call->eps)};
}

/* Those of one group number, in each batch. */
static void by_channels(const kf_group_norm_backward_call *call, int64_t g, const statistics *of) {
    const kf_tensor *x = &call->x, *dy = &call->dy;
    for (int64_t c = 0; c < x->shape[2]; c++) {
        float dw = 0.0f, db = 0.0f;
        for (int64_t b = 0; b < x->shape[0]; b++) {
            const group r = group_of(x, b, g);
            for (int64_t s = 0; s < r.places; s++) {
                const float dy_here = load(dy, at_place(&r, dy, c, s));
                dw += dy_here * ((load(x, at_place(&r, x, c, s)) - of[b].mean) * of[b].rstd);
                db += dy_here;
            }
        }
        const group first = group_of(x, 0, g);
        if (is_present(&call->dw)) store(&call->dw, at_channel(&first, &call->dw, c), dw);
        if (is_present(&call->db)) store(&call->db, at_channel(&first, &call->db, c), db);
    }
}

static void by_elements(const kf_group_norm_backward_call *call, const group *r, statistics of) {
    const kf_tensor *x = &call->x, *dy = &call->dy, *weight = &call->weight, *dx = &call->dx;
    const float count = (float)(r->channels * r->places);
    float sum = 0.0f, along = 0.0f;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t c = 0; c < r->channels; c++) {
            const float scale = is_present(weight) ? load(weight, at_channel(r, weight, c)) : 1.0f;
            for (int64_t s = 0; s < r->places; s++) {
                const float g = load(dy, at_place(r, dy, c, s)) * scale;
                const float h = (load(x, at_place(r, x, c, s)) - of.mean) * of.rstd;
                if (pass == 0) {
                    sum += g;
                    along += g * h;
                } else {
                    store(dx, at_place(r, dx, c, s), of.rstd * (g - sum / count - h * (along / count)));
                }
            }
        }
}

int kf_group_norm_backward(const kf_group_norm_backward_call *call) {
    const kf_tensor *x = &call->x;
    if (!fits_float(x) || !is_of(&call->dy, x->dtype) || !is_of(&call->dx, x->dtype)) return KF_REJECTED;
    if (!is_of_or_f32(&call->weight, x->dtype) || !is_of(&call->mean, KF_F32) || !is_of(&call->rstd, KF_F32)) return KF_REJECTED;
    if (!fits_float(&call->dw) || !fits_float(&call->db)) return KF_REJECTED;
    statistics *of = malloc((size_t)(x->shape[0] + 1) * sizeof *of);
    if (of == NULL) return KF_REJECTED;
    for (int64_t g = 0; g < x->shape[1]; g++) {
        for (int64_t b = 0; b < x->shape[0]; b++) {
            const group r = group_of(x, b, g);
            of[b] = statistics_of(call, &r);
        }
        if (is_present(&call->dw) || is_present(&call->db)) by_channels(call, g, of);
        for (int64_t b = 0; b < x->shape[0]; b++) {
            const group r = group_of(x, b, g);
            by_elements(call, &r, of[b]);
        }
    }
    free(of);
    return KF_OK;
}
