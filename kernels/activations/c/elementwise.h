/* elementwise.h: one or two outputs of one to three inputs, element by element. Any axis and strides. */
#ifndef KERNELS_ACTIVATIONS_ELEMENTWISE_H
#define KERNELS_ACTIVATIONS_ELEMENTWISE_H

#include "../../common/overlap.h"
#include "../../common/taken.h"

#define MOST_INPUTS 3
#define MOST_OUTPUTS 2

/* The outputs of the inputs of one place. */
typedef void element_kernel(const float *in, float *out);

/* An absent tensor ends a list. All of a place is read before anything of it is written. */
static inline int over_elements(const kf_tensor *given, const kf_tensor *out, int axis, element_kernel *kernel) {
    kf_tensor in[MOST_INPUTS];
    void *copies[MOST_INPUTS] = {NULL};
    int inputs = 0, outputs = 0;
    while (outputs < MOST_OUTPUTS && is_present(&out[outputs])) outputs++;
    for (; inputs < MOST_INPUTS && is_present(&given[inputs]); inputs++) {
        in[inputs] = given[inputs];
        if (!fits_float(&in[inputs]) || !is_of(&in[inputs], in[0].dtype)) return KF_REJECTED;
    }
    for (int o = 0; o < outputs; o++)
        if (!is_of_or_f32(&out[o], in[0].dtype)) return KF_REJECTED;
    if (!has_elements(&in[0])) return KF_OK;
    bool ready = true;
    for (int i = 0; i < inputs && ready; i++) ready = detach(&in[i], &out[0], &out[outputs - 1], &copies[i]);
    if (ready) {
        row r = first_row(&in[0], axis);
        do {
            for (int64_t place = 0; place < r.n; place++) {
                float values[MOST_INPUTS], results[MOST_OUTPUTS];
                for (int i = 0; i < inputs; i++) values[i] = load(&in[i], at(&r, &in[i], place));
                kernel(values, results);
                for (int o = 0; o < outputs; o++) store(&out[o], at(&r, &out[o], place), results[o]);
            }
        } while (next_row(&r));
    }
    for (int i = 0; i < inputs; i++) free(copies[i]);
    return ready ? KF_OK : KF_REJECTED;
}

#endif
