/* XNNPACK's operators, each made, set up and run for one call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xnnpack.h>

#include "kernelfuzz.h"

/* A copy of rows without gaps, behind which there is what XNNPACK says that it may read. */
static float *padded(const kf_tensor *t, size_t elements) {
    float *copy = calloc(1, elements * sizeof *copy + XNN_EXTRA_BYTES);
    if (elements > 0) memcpy(copy, t->data, elements * sizeof *copy);
    return copy;
}

static size_t rows_of(const kf_tensor *t, int own) {
    size_t rows = 1;
    for (int axis = 0; axis < t->rank - own; axis++) rows *= (size_t)t->shape[axis];
    return rows;
}

static size_t extent(const kf_tensor *t, int from_end) {
    return from_end <= t->rank ? (size_t)t->shape[t->rank - from_end] : 1;
}

int kf_softmax(const kf_softmax_call *call) {
    const size_t n = extent(&call->x, 1), rows = rows_of(&call->x, 1);
    xnn_operator_t made = NULL;
    float *x = padded(&call->x, rows * n);
    int done = xnn_initialize(NULL) == xnn_status_success &&
               xnn_create_softmax_nc_f32(n, n, n, 0, &made) == xnn_status_success &&
               xnn_setup_softmax_nc_f32(made, rows, x, call->y.data, NULL) == xnn_status_success &&
               xnn_run_operator(made, NULL) == xnn_status_success;
    if (made != NULL) xnn_delete_operator(made);
    free(x);
    return done ? KF_OK : KF_REJECTED;
}

int kf_silu_mul(const kf_silu_mul_call *call) {
    const size_t n = extent(&call->gate, 1), rows = rows_of(&call->gate, 1);
    xnn_operator_t made = NULL, product = NULL;
    float *gate = padded(&call->gate, rows * n), *up = padded(&call->up, rows * n);
    float *s = calloc(1, rows * n * sizeof *s + XNN_EXTRA_BYTES);
    const size_t shape[] = {rows, n};
    int done = xnn_initialize(NULL) == xnn_status_success &&
               xnn_create_sigmoid_nc_f32(n, n, n, 0, &made) == xnn_status_success &&
               xnn_setup_sigmoid_nc_f32(made, rows, gate, s, NULL) == xnn_status_success &&
               xnn_run_operator(made, NULL) == xnn_status_success &&
               xnn_create_multiply_nd_f32(-INFINITY, INFINITY, 0, &product) == xnn_status_success &&
               xnn_setup_multiply_nd_f32(product, 2, shape, 2, shape, gate, s, s, NULL) == xnn_status_success &&
               xnn_run_operator(product, NULL) == xnn_status_success &&
               xnn_setup_multiply_nd_f32(product, 2, shape, 2, shape, s, up, call->y.data, NULL) == xnn_status_success &&
               xnn_run_operator(product, NULL) == xnn_status_success;
    if (made != NULL) xnn_delete_operator(made);
    if (product != NULL) xnn_delete_operator(product);
    free(gate);
    free(up);
    free(s);
    return done ? KF_OK : KF_REJECTED;
}

int kf_matmul(const kf_matmul_call *call) {
    const size_t m = extent(&call->a, 2), k = extent(&call->a, 1), n = extent(&call->b, 1);
    int done = xnn_initialize(NULL) == xnn_status_success;
    for (size_t stack = 0; done && stack < rows_of(&call->a, 2); stack++) {
        xnn_operator_t made = NULL;
        float *a = calloc(1, m * k * sizeof *a + XNN_EXTRA_BYTES);
        memcpy(a, (const float *)call->a.data + stack * m * k, m * k * sizeof *a);
        const float *b = (const float *)call->b.data + stack * k * n;
        float *c = (float *)call->c.data + stack * m * n;
        done = xnn_create_fully_connected_nc_f32(k, n, k, n, b, call->bias.data, -INFINITY, INFINITY,
                                                 XNN_FLAG_TRANSPOSE_WEIGHTS, &made) == xnn_status_success &&
               xnn_setup_fully_connected_nc_f32(made, m, a, c, NULL) == xnn_status_success &&
               xnn_run_operator(made, NULL) == xnn_status_success;
        if (made != NULL) xnn_delete_operator(made);
        free(a);
    }
    return done ? KF_OK : KF_REJECTED;
}
