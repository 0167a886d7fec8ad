/* oneDNN's primitives, each made and run for one call. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <dnnl.h>

#include "kernelfuzz.h"

enum { MOST_OPERANDS = 8 };

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* Before anything is called that may take a signal, or is counted. */
__attribute__((constructor)) static void begin(void) {
    dnnl_set_max_cpu_isa(MOST);
    dnnl_engine_create(&engine, dnnl_cpu, 0);
    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
}

/* What a primitive is given, and as which of its arguments. */
typedef struct {
    int role;
    dnnl_memory_desc_t as;
    void *data;
} operand;

static dnnl_data_type_t type_of(const kf_tensor *t) {
    return t->dtype == KF_BF16 ? dnnl_bf16 : dnnl_f32;
}

static dnnl_memory_desc_t dense(int rank, const dnnl_dims_t shape, dnnl_data_type_t type) {
    static const dnnl_format_tag_t tags[] = {dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc};
    dnnl_memory_desc_t made;
    dnnl_memory_desc_init_by_tag(&made, rank, shape, type, tags[rank]);
    return made;
}

/* A tensor without gaps, the innermost dimensions of which, as many as are its own, stand behind all others. */
static dnnl_memory_desc_t stacked(const kf_tensor *t, int own) {
    dnnl_dims_t shape = {1};
    for (int axis = 0; axis < t->rank; axis++) {
        const int back = t->rank - 1 - axis;
        if (back < own) shape[own - back] = t->shape[axis];
        else shape[0] *= t->shape[axis];
    }
    return dense(own + 1, shape, type_of(t));
}

static operand rows(int role, const kf_tensor *t) {
    return (operand){role, stacked(t, 1), t->data};
}

/* A number for each row. */
static operand each(int role, const kf_tensor *of, float *data) {
    return (operand){role, dense(1, stacked(of, 1).dims, dnnl_f32), data};
}

/* What all rows have. */
static operand shared(int role, const kf_tensor *t) {
    return (operand){role, dense(1, t->shape + t->rank - 1, type_of(t)), t->data};
}

static bool run(const_dnnl_op_desc_t asked, const_dnnl_primitive_desc_t hint, int count, const operand *given) {
    dnnl_primitive_desc_t found = NULL;
    dnnl_primitive_t made = NULL;
    dnnl_exec_arg_t args[MOST_OPERANDS];
    bool done = dnnl_primitive_desc_create(&found, asked, NULL, engine, hint) == dnnl_success &&
                dnnl_primitive_create(&made, found) == dnnl_success;
    for (int i = 0; done && i < count; i++) {
        args[i].arg = given[i].role;
        dnnl_memory_create(&args[i].memory, &given[i].as, engine, given[i].data);
    }
    if (done) {
        done = dnnl_primitive_execute(made, stream, count, args) == dnnl_success && dnnl_stream_wait(stream) == dnnl_success;
        for (int i = 0; i < count; i++) dnnl_memory_destroy(args[i].memory);
    }
    if (made != NULL) dnnl_primitive_destroy(made);
    if (found != NULL) dnnl_primitive_desc_destroy(found);
    return done;
}

/* Backward, which takes the descriptor of the way forward. */
static int run_back(const_dnnl_op_desc_t forward, const_dnnl_op_desc_t asked, int count, const operand *given) {
    dnnl_primitive_desc_t hint = NULL;
    const bool done = dnnl_primitive_desc_create(&hint, forward, NULL, engine, NULL) == dnnl_success &&
                      run(asked, hint, count, given);
    if (hint != NULL) dnnl_primitive_desc_destroy(hint);
    return done ? KF_OK : KF_REJECTED;
}

int kf_layer_norm(const kf_layer_norm_call *call) {
    const bool kept = call->mean.data != NULL;
    const operand x = rows(DNNL_ARG_SRC, &call->x);
    float *var = malloc((size_t)x.as.dims[0] * sizeof *var);
    operand given[MOST_OPERANDS] = {x, rows(DNNL_ARG_DST, &call->y)};
    int count = 2;
    unsigned flags = 0;
    if (call->weight.data != NULL) {
        flags |= dnnl_use_scale;
        given[count++] = shared(DNNL_ARG_SCALE, &call->weight);
    }
    if (call->bias.data != NULL) {
        flags |= dnnl_use_shift;
        given[count++] = shared(DNNL_ARG_SHIFT, &call->bias);
    }
    if (kept) {
        given[count++] = each(DNNL_ARG_MEAN, &call->x, call->mean.data);
        given[count++] = each(DNNL_ARG_VARIANCE, &call->x, var);
    }
    dnnl_layer_normalization_desc_t asked;
    dnnl_layer_normalization_forward_desc_init(
        &asked, kept ? dnnl_forward_training : dnnl_forward_inference, &x.as, NULL, call->eps, flags);
    const bool done = run(&asked, NULL, count, given);
    free(var);
    return done ? KF_OK : KF_REJECTED;
}

int kf_softmax(const kf_softmax_call *call) {
    const operand given[] = {rows(DNNL_ARG_SRC, &call->x), rows(DNNL_ARG_DST, &call->y)};
    dnnl_softmax_desc_t asked;
    dnnl_softmax_forward_desc_init(&asked, dnnl_forward_inference, &given->as, 1);
    return run(&asked, NULL, 2, given) ? KF_OK : KF_REJECTED;
}

int kf_softmax_backward(const kf_softmax_backward_call *call) {
    const operand given[] = {
        rows(DNNL_ARG_DST, &call->y), rows(DNNL_ARG_DIFF_DST, &call->dy), rows(DNNL_ARG_DIFF_SRC, &call->dx)};
    dnnl_softmax_desc_t forward, asked;
    dnnl_softmax_forward_desc_init(&forward, dnnl_forward_training, &given->as, 1);
    dnnl_softmax_backward_desc_init(&asked, &given->as, &given->as, 1);
    return run_back(&forward, &asked, 3, given);
}

int kf_log_softmax(const kf_log_softmax_call *call) {
    const operand given[] = {rows(DNNL_ARG_SRC, &call->x), rows(DNNL_ARG_DST, &call->y)};
    dnnl_logsoftmax_desc_t asked;
    dnnl_logsoftmax_forward_desc_init(&asked, dnnl_forward_inference, &given->as, 1);
    return run(&asked, NULL, 2, given) ? KF_OK : KF_REJECTED;
}

static bool elementwise(dnnl_alg_kind_t function, const kf_tensor *x, const kf_tensor *y) {
    const operand given[] = {rows(DNNL_ARG_SRC, x), rows(DNNL_ARG_DST, y)};
    dnnl_eltwise_desc_t asked;
    dnnl_eltwise_forward_desc_init(&asked, dnnl_forward_inference, function, &given->as, 1.0f, 0.0f);
    return run(&asked, NULL, 2, given);
}

static int elementwise_back(dnnl_alg_kind_t function, const kf_tensor *x, const kf_tensor *dy, const kf_tensor *dx) {
    const operand given[] = {rows(DNNL_ARG_SRC, x), rows(DNNL_ARG_DIFF_DST, dy), rows(DNNL_ARG_DIFF_SRC, dx)};
    dnnl_eltwise_desc_t forward, asked;
    dnnl_eltwise_forward_desc_init(&forward, dnnl_forward_training, function, &given->as, 1.0f, 0.0f);
    dnnl_eltwise_backward_desc_init(&asked, function, &given->as, &given->as, 1.0f, 0.0f);
    return run_back(&forward, &asked, 3, given);
}

int kf_gelu(const kf_gelu_call *call) {
    return elementwise(dnnl_eltwise_gelu_erf, &call->x, &call->y) ? KF_OK : KF_REJECTED;
}

int kf_gelu_backward(const kf_gelu_backward_call *call) {
    return elementwise_back(dnnl_eltwise_gelu_erf, &call->x, &call->dy, &call->dx);
}

int kf_gelu_tanh(const kf_gelu_tanh_call *call) {
    return elementwise(dnnl_eltwise_gelu_tanh, &call->x, &call->y) ? KF_OK : KF_REJECTED;
}

int kf_gelu_tanh_backward(const kf_gelu_tanh_backward_call *call) {
    return elementwise_back(dnnl_eltwise_gelu_tanh, &call->x, &call->dy, &call->dx);
}

int kf_silu_mul(const kf_silu_mul_call *call) {
    const operand given[] = {
        rows(DNNL_ARG_SRC_0, &call->y), rows(DNNL_ARG_SRC_1, &call->up), rows(DNNL_ARG_DST, &call->y)};
    dnnl_binary_desc_t asked;
    dnnl_binary_desc_init(&asked, dnnl_binary_mul, &given->as, &given->as, &given->as);
    const bool done = elementwise(dnnl_eltwise_swish, &call->gate, &call->y) && run(&asked, NULL, 3, given);
    return done ? KF_OK : KF_REJECTED;
}

/* oneDNN refuses to reduce what has one element already. */
static int reduced(dnnl_alg_kind_t by, const kf_tensor *x, const kf_tensor *y) {
    const operand source = rows(DNNL_ARG_SRC, x);
    if (source.as.dims[1] == 1) {
        memcpy(y->data, x->data, dnnl_memory_desc_get_size(&source.as));
        return KF_OK;
    }
    const dnnl_dims_t shape = {source.as.dims[0], 1};
    const operand given[] = {source, {DNNL_ARG_DST, dense(2, shape, type_of(y)), y->data}};
    dnnl_reduction_desc_t asked;
    dnnl_reduction_desc_init(&asked, by, &given[0].as, &given[1].as, 0.0f, 0.0f);
    return run(&asked, NULL, 2, given) ? KF_OK : KF_REJECTED;
}

int kf_row_sum(const kf_row_sum_call *call) {
    return reduced(dnnl_reduction_sum, &call->x, &call->y);
}

int kf_row_mean(const kf_row_mean_call *call) {
    return reduced(dnnl_reduction_mean, &call->x, &call->y);
}

int kf_row_max(const kf_row_max_call *call) {
    return reduced(dnnl_reduction_max, &call->x, &call->y);
}

int kf_matmul(const kf_matmul_call *call) {
    operand given[MOST_OPERANDS] = {
        {DNNL_ARG_SRC, stacked(&call->a, 2), call->a.data}, {DNNL_ARG_WEIGHTS, stacked(&call->b, 2), call->b.data},
        {DNNL_ARG_DST, stacked(&call->c, 2), call->c.data}};
    int count = 3;
    if (call->bias.data != NULL) {
        const dnnl_dims_t shape = {1, 1, call->bias.shape[0]};
        given[count++] = (operand){DNNL_ARG_BIAS, dense(3, shape, type_of(&call->bias)), call->bias.data};
    }
    dnnl_matmul_desc_t asked;
    dnnl_matmul_desc_init(&asked, &given[0].as, &given[1].as, count > 3 ? &given[3].as : NULL, &given[2].as);
    return run(&asked, NULL, count, given) ? KF_OK : KF_REJECTED;
}
