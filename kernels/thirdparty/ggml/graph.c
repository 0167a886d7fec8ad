/* ggml's operators, each made, planned and run as a graph on its CPU backend for one call. */
#include "ggml.h"

#include "ggml-cpu.h"
#include "rows.h"

#include <stdlib.h>
#include <string.h>

/* What a graph is made in, with room for so many tensors like one. */
static struct ggml_context *context_for(const kf_tensor *x, int tensors) {
    const size_t elements = (size_t)(rows_of(x, 1) * length_of(x));
    const struct ggml_init_params asked = {
        (size_t)tensors * (elements * sizeof(float) + 4096) + ggml_graph_overhead() + (1 << 16), NULL, false};
    return ggml_init(asked);
}

/* A tensor of rows, or of one row that all have. */
static struct ggml_tensor *tensor_of(struct ggml_context *context, const kf_tensor *t) {
    struct ggml_tensor *made = ggml_new_tensor_2d(context, GGML_TYPE_F32, length_of(t), rows_of(t, 1));
    memcpy(made->data, t->data, ggml_nbytes(made));
    return made;
}

static void write(struct ggml_context *context, struct ggml_tensor *made, const kf_tensor *y) {
    struct ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, made);
    ggml_graph_compute_with_ctx(context, graph, 1);
    memcpy(y->data, made->data, ggml_nbytes(made));
    ggml_free(context);
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    struct ggml_context *in = context_for(&call->x, 8);
    struct ggml_tensor *made = ggml_rms_norm(in, tensor_of(in, &call->x), call->eps);
    if (call->weight.data != NULL) made = ggml_mul(in, made, tensor_of(in, &call->weight));
    write(in, made, &call->y);
    return KF_OK;
}

int kf_layer_norm(const kf_layer_norm_call *call) {
    struct ggml_context *in = context_for(&call->x, 8);
    struct ggml_tensor *made = ggml_norm(in, tensor_of(in, &call->x), call->eps);
    if (call->weight.data != NULL) made = ggml_mul(in, made, tensor_of(in, &call->weight));
    if (call->bias.data != NULL) made = ggml_add(in, made, tensor_of(in, &call->bias));
    write(in, made, &call->y);
    return KF_OK;
}

int kf_softmax(const kf_softmax_call *call) {
    struct ggml_context *in = context_for(&call->x, 8);
    write(in, ggml_soft_max(in, tensor_of(in, &call->x)), &call->y);
    return KF_OK;
}

int kf_silu_mul(const kf_silu_mul_call *call) {
    struct ggml_context *in = context_for(&call->gate, 8);
    struct ggml_tensor *gate = tensor_of(in, &call->gate), *up = tensor_of(in, &call->up);
#ifdef SILU_ALONE
    write(in, ggml_mul(in, ggml_silu(in, gate), up), &call->y);
#else
    write(in, ggml_swiglu_split(in, gate, up), &call->y);
#endif
    return KF_OK;
}

int kf_gelu(const kf_gelu_call *call) {
    struct ggml_context *in = context_for(&call->x, 8);
    write(in, ggml_gelu_erf(in, tensor_of(in, &call->x)), &call->y);
    return KF_OK;
}

int kf_row_sum(const kf_row_sum_call *call) {
    struct ggml_context *in = context_for(&call->x, 8);
    write(in, ggml_sum_rows(in, tensor_of(in, &call->x)), &call->y);
    return KF_OK;
}

int kf_row_mean(const kf_row_mean_call *call) {
    struct ggml_context *in = context_for(&call->x, 8);
    write(in, ggml_mean(in, tensor_of(in, &call->x)), &call->y);
    return KF_OK;
}
