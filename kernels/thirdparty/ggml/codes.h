/* What ggml's functions of codes need beside them, and how their scales and codes are read. */
#pragma once
#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include <stdlib.h>

#include "ggml-cpu-impl.h"
#include "quants.h"
#include "simd-mappings.h"

#include "rows.h"

enum { BLOCK = 32 };

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

int ggml_cpu_has_matmul_int8(void) {
#ifdef __ARM_FEATURE_MATMUL_INT8
    return 1;
#else
    return 0;
#endif
}

__attribute__((constructor)) static void fill_table(void) {
    for (uint32_t bits = 0; bits < 1 << 16; bits++) ggml_table_f32_f16[bits] = GGML_COMPUTE_FP16_TO_FP32((ggml_half)bits);
}

/* Of checks that are not asked for here. */
size_t ggml_type_size(enum ggml_type type) {
    (void)type;
    abort();
}

const char *ggml_type_name(enum ggml_type type) {
    (void)type;
    abort();
}

/* The scale of a group. */
static inline ggml_half scale_of(const kf_tensor *t, int64_t row, int64_t group) {
    return ((const ggml_half *)row_of(t, 1, row))[group * t->strides[t->rank - 1]];
}

static inline int clamped(int value) {
    return value < -127 ? -127 : value;
}
