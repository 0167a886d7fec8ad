/* ggml's functions of one row, called as its operators call them. */
#include "vec.h"

#include "rows.h"

float ggml_table_f32_f16[1 << 16];

void ggml_abort(const char *file, int line, const char *format, ...) {
    (void)file, (void)line, (void)format;
    abort();
}

#ifdef __ARM_FEATURE_SVE
int ggml_cpu_get_sve_cnt(void) {
    return (int)svcntb();
}
#endif

/* What ggml_cpu_init fills before anything is calculated. */
__attribute__((constructor)) static void fill_tables(void) {
    for (uint32_t bits = 0; bits < 1 << 16; bits++) {
        const float number = GGML_COMPUTE_FP16_TO_FP32((ggml_fp16_t)bits);
        ggml_table_f32_f16[bits] = number;
        ggml_table_gelu_f16[bits] = GGML_CPU_FP32_TO_FP16(ggml_gelu_f32(number));
    }
}

/* The function that is of a dtype. */
#define OF_DTYPE(dtype, name, ...)                                        \
    switch (dtype) {                                                      \
    case KF_F32: name##_f32(__VA_ARGS__); break;                          \
    case KF_F16: name##_f16(__VA_ARGS__); break;                          \
    default: name##_bf16(__VA_ARGS__); break;                             \
    }

int kf_dot(const kf_dot_call *call) {
    const int n = length_of(&call->a);
    for (int64_t row = 0; row < rows_of(&call->a, 1); row++) {
        void *a = row_of(&call->a, 1, row), *b = row_of(&call->b, 1, row);
        float *y = row_of(&call->y, 0, row);
        OF_DTYPE(call->a.dtype, ggml_vec_dot, n, y, 0, a, 0, b, 0, 1);
    }
    return KF_OK;
}

static void scale(const kf_tensor *x, const kf_tensor *scaled, float factor) {
    const int n = length_of(x);
    for (int64_t row = 0; row < rows_of(x, 1); row++) {
        void *y = row_of(scaled, 1, row);
        memmove(y, row_of(x, 1, row), (x->dtype == KF_F32 ? 4 : 2) * (size_t)n);
        if (x->dtype == KF_F32) ggml_vec_scale_f32(n, y, factor);
        else ggml_vec_scale_f16(n, y, factor);
    }
}

int kf_scaled(const kf_scaled_call *call) {
    scale(&call->x, &call->y, call->factor);
    return KF_OK;
}

int kf_scaled_widely(const kf_scaled_widely_call *call) {
    scale(&call->x, &call->y, call->factor);
    return KF_OK;
}

int kf_scaled_add(const kf_scaled_add_call *call) {
    const int n = length_of(&call->x);
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        void *y = row_of(&call->y, 1, row);
        const void *x = row_of(&call->x, 1, row);
        memmove(y, row_of(&call->z, 1, row), (call->x.dtype == KF_F32 ? 4 : 2) * (size_t)n);
        if (call->x.dtype == KF_F32) ggml_vec_mad_f32(n, y, x, call->factor);
        else ggml_vec_mad_f16(n, y, x, call->factor);
    }
    return KF_OK;
}

int kf_softmax(const kf_softmax_call *call) {
    const int n = length_of(&call->x);
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        const float *x = row_of(&call->x, 1, row);
        float *y = row_of(&call->y, 1, row), most = -INFINITY;
        ggml_vec_max_f32(n, &most, x);
        const ggml_float mass = ggml_vec_soft_max_f32(n, y, x, most);
        ggml_vec_scale_f32(n, y, (float)(1.0 / mass));
    }
    return KF_OK;
}

int kf_log_softmax(const kf_log_softmax_call *call) {
    const int n = length_of(&call->x);
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        const float *x = row_of(&call->x, 1, row);
        float *y = row_of(&call->y, 1, row), most = -INFINITY;
        ggml_vec_max_f32(n, &most, x);
        ggml_vec_add1_f32(n, y, y, -(float)ggml_vec_log_soft_max_f32(n, y, x, most));
    }
    return KF_OK;
}

int kf_row_max(const kf_row_max_call *call) {
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++)
        ggml_vec_max_f32(length_of(&call->x), row_of(&call->y, 0, row), row_of(&call->x, 1, row));
    return KF_OK;
}

int kf_row_sum(const kf_row_sum_call *call) {
    const int n = length_of(&call->x);
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        const void *x = row_of(&call->x, 1, row);
        float *y = row_of(&call->y, 0, row);
        switch (call->x.dtype) {
        case KF_F32: ggml_vec_sum_f32(n, y, x); break;
        case KF_F16: ggml_vec_sum_f16_ggf(n, y, x); break;
        default: ggml_vec_sum_bf16_ggf(n, y, x); break;
        }
    }
    return KF_OK;
}

int kf_cumsum(const kf_cumsum_call *call) {
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++)
        ggml_vec_cumsum_f32(length_of(&call->x), row_of(&call->y, 1, row), row_of(&call->x, 1, row));
    return KF_OK;
}

int kf_row_var(const kf_row_var_call *call) {
    const int n = length_of(&call->x);
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        const float *x = row_of(&call->x, 1, row);
        float sum = 0.0f, apart[n];
        ggml_vec_sum_f32(n, &sum, x);
        const ggml_float mean_square = ggml_vec_cvar_f32(n, apart, x, sum / (float)n);
        *(float *)row_of(&call->y, 0, row) = (float)(mean_square * n / (n - call->correction));
    }
    return KF_OK;
}

int kf_silu_mul(const kf_silu_mul_call *call) {
    const int n = length_of(&call->gate);
    for (int64_t row = 0; row < rows_of(&call->gate, 1); row++) {
        const void *gate = row_of(&call->gate, 1, row), *up = row_of(&call->up, 1, row);
        void *y = row_of(&call->y, 1, row);
#ifdef SILU_ALONE
        ggml_vec_silu_f32(n, y, gate);
        ggml_vec_mul_f32(n, y, y, up);
#else
        OF_DTYPE(call->gate.dtype, ggml_vec_swiglu, n, y, gate, up);
#endif
    }
    return KF_OK;
}

int kf_gelu(const kf_gelu_call *call) {
    const int n = length_of(&call->x);
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        OF_DTYPE(call->x.dtype, ggml_vec_gelu_erf, n, row_of(&call->y, 1, row), row_of(&call->x, 1, row));
    }
    return KF_OK;
}

int kf_gelu_tanh(const kf_gelu_tanh_call *call) {
    const int n = length_of(&call->x);
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        OF_DTYPE(call->x.dtype, ggml_vec_gelu, n, row_of(&call->y, 1, row), row_of(&call->x, 1, row));
    }
    return KF_OK;
}
