/* ggml's products of rows that are stored in blocks of 32 codes, which are made here of codes and scales. */
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

/* Codes of a row, one after the other: element i of group g. */
typedef struct {
    const int8_t *codes;
    int64_t group, item;
} kf_codes;

static kf_codes codes_of(const kf_tensor *t, int64_t row) {
    return (kf_codes){row_of(t, 2, row), t->strides[t->rank - 2], t->strides[t->rank - 1]};
}

static int code(kf_codes from, int64_t group, int i) {
    return from.codes[group * from.group + i * from.item];
}

/* The scale of a group. */
static ggml_half scale_of(const kf_tensor *t, int64_t row, int64_t group) {
    return ((const ggml_half *)row_of(t, 1, row))[group * t->strides[t->rank - 1]];
}

/* Four bits of each of the first half of a block, and of the second half above them; a fifth in a word of their own. */
static void fill_nibbles(uint8_t *low, uint8_t *high, kf_codes from, int64_t group) {
    uint32_t fifth = 0;
    for (int i = 0; i < BLOCK / 2; i++) {
        const int first = code(from, group, i), second = code(from, group, i + BLOCK / 2);
        low[i] = (uint8_t)((first & 15) | (second & 15) << 4);
        fifth |= (uint32_t)(first >> 4 & 1) << i | (uint32_t)(second >> 4 & 1) << (i + BLOCK / 2);
    }
    if (high != NULL) memcpy(high, &fifth, sizeof fifth);
}

static int clamped(int value) {
    return value < -127 ? -127 : value;
}

int kf_block_dot(const kf_block_dot_call *call) {
    const int64_t groups = call->a.shape[call->a.rank - 2];
    const int n = (int)groups * BLOCK;
    const size_t most = (size_t)(groups > 0 ? groups : 1);
    void *left = malloc(most * sizeof(block_q8_0));
    block_q8_0 *right = malloc(most * sizeof *right);
    for (int64_t row = 0; row < rows_of(&call->a, 2); row++) {
        const kf_codes a = codes_of(&call->a, row), b = codes_of(&call->b, row);
        for (int64_t g = 0; g < groups; g++) {
            const ggml_half scale = scale_of(&call->scale_a, row, g);
            right[g].d = scale_of(&call->scale_b, row, g);
            for (int i = 0; i < BLOCK; i++) right[g].qs[i] = (int8_t)clamped(code(b, g, i));
            if (call->bits == 4) {
                block_q4_0 *block = (block_q4_0 *)left + g;
                block->d = scale;
                fill_nibbles(block->qs, NULL, a, g);
            } else if (call->bits == 5) {
                block_q5_0 *block = (block_q5_0 *)left + g;
                block->d = scale;
                fill_nibbles(block->qs, block->qh, a, g);
            } else {
                block_q8_0 *block = (block_q8_0 *)left + g;
                block->d = scale;
                for (int i = 0; i < BLOCK; i++) block->qs[i] = (int8_t)clamped(code(a, g, i));
            }
        }
        float *y = row_of(&call->y, 0, row);
        if (call->bits == 4) ggml_vec_dot_q4_0_q8_0(n, y, 0, left, 0, right, 0, 1);
        else if (call->bits == 5) ggml_vec_dot_q5_0_q8_0(n, y, 0, left, 0, right, 0, 1);
        else ggml_vec_dot_q8_0_q8_0(n, y, 0, left, 0, right, 0, 1);
    }
    free(left);
    free(right);
    return KF_OK;
}

int kf_block_dot_above(const kf_block_dot_above_call *call) {
    const int64_t groups = call->a.shape[call->a.rank - 2];
    const int n = (int)groups * BLOCK;
    const size_t most = (size_t)(groups > 0 ? groups : 1);
    void *left = malloc(most * sizeof(block_q5_1));
    block_q8_1 *right = malloc(most * sizeof *right);
    for (int64_t row = 0; row < rows_of(&call->a, 2); row++) {
        const kf_codes a = codes_of(&call->a, row), b = codes_of(&call->b, row);
        for (int64_t g = 0; g < groups; g++) {
            const ggml_half scale = scale_of(&call->scale_a, row, g), least = scale_of(&call->least, row, g);
            int sum = 0;
            for (int i = 0; i < BLOCK; i++) sum += right[g].qs[i] = (int8_t)clamped(code(b, g, i));
            right[g].d = scale_of(&call->scale_b, row, g);
            right[g].s = GGML_CPU_FP32_TO_FP16(GGML_CPU_FP16_TO_FP32(right[g].d) * (float)sum);
            if (call->bits == 4) {
                block_q4_1 *block = (block_q4_1 *)left + g;
                block->d = scale;
                block->m = least;
                fill_nibbles(block->qs, NULL, a, g);
            } else {
                block_q5_1 *block = (block_q5_1 *)left + g;
                block->d = scale;
                block->m = least;
                fill_nibbles(block->qs, block->qh, a, g);
            }
        }
        float *y = row_of(&call->y, 0, row);
        if (call->bits == 4) ggml_vec_dot_q4_1_q8_1(n, y, 0, left, 0, right, 0, 1);
        else ggml_vec_dot_q5_1_q8_1(n, y, 0, left, 0, right, 0, 1);
    }
    free(left);
    free(right);
    return KF_OK;
}

/* Six bits of each scale and of each step of 8 groups: four of each whole, the rest in the bits above them. */
static void pack_sixes(uint8_t *packed, const int *scales, const int *steps) {
    memset(packed, 0, K_SCALE_SIZE);
    for (int i = 0; i < 4; i++) {
        packed[i] = (uint8_t)(scales[i] | scales[i + 4] >> 4 << 6);
        packed[i + 4] = (uint8_t)(steps[i] | steps[i + 4] >> 4 << 6);
        packed[i + 8] = (uint8_t)((scales[i + 4] & 15) | (steps[i + 4] & 15) << 4);
    }
}

/* Where the codes of a super-block begin, and the one at a place of it. */
static const int8_t *super_codes(const kf_tensor *t, int64_t row, int64_t g) {
    return (const int8_t *)row_of(t, 3, row) + g * t->strides[t->rank - 3];
}

static int super_code(const int8_t *codes, const kf_tensor *t, int place) {
    const int each = (int)t->shape[t->rank - 1];
    return codes[place / each * t->strides[t->rank - 2] + place % each * t->strides[t->rank - 1]];
}

/* What a super-block is multiplied by. */
static block_q8_K right_of(const kf_tensor *b, const kf_tensor *scale, int64_t row, int64_t g) {
    block_q8_K made = {.d = ((const float *)row_of(scale, 1, row))[g * scale->strides[scale->rank - 1]]};
    const int8_t *codes = super_codes(b, row, g);
    for (int i = 0; i < QK_K; i++) made.bsums[i / 16] += made.qs[i] = (int8_t)clamped(super_code(codes, b, i));
    return made;
}

/* The number that a group of a super-block has. */
static int of_group(const kf_tensor *t, int64_t row, int64_t g, int group) {
    const int64_t *strides = t->strides + t->rank - 2;
    return ((const int8_t *)row_of(t, 2, row))[g * strides[0] + group * strides[1]];
}

/* What lies in two groups of a super-block, which share bytes: the one in the lower bits, the other above it. */
static void fill_super(uint8_t *low, uint8_t *high, const int8_t *codes, const kf_tensor *t) {
    for (int pair = 0; pair < 4; pair++) {
        for (int i = 0; i < BLOCK; i++) {
            const int first = super_code(codes, t, 2 * pair * BLOCK + i);
            const int second = super_code(codes, t, (2 * pair + 1) * BLOCK + i);
            low[pair * BLOCK + i] = (uint8_t)((first & 15) | (second & 15) << 4);
            if (high == NULL) continue;
            if (pair == 0) high[i] = 0;
            high[i] |= (uint8_t)((first >> 4 & 1) << 2 * pair | (second >> 4 & 1) << (2 * pair + 1));
        }
    }
}

int kf_super_block_dot(const kf_super_block_dot_call *call) {
    const kf_tensor *b = &call->b;
    const int64_t groups = b->shape[b->rank - 3];
    const size_t most = (size_t)(groups > 0 ? groups : 1);
    void *left = malloc(most * sizeof(block_q5_K));
    block_q8_K *right = malloc(most * sizeof *right);
    for (int64_t row = 0; row < rows_of(b, 3); row++) {
        for (int64_t g = 0; g < groups; g++) {
            right[g] = right_of(b, &call->scale_b, row, g);
            int scales[8], steps[8];
            for (int i = 0; i < 8; i++) {
                scales[i] = of_group(&call->scale, row, g, i) & 63;
                steps[i] = of_group(&call->step, row, g, i) & 63;
            }
            const int8_t *a = super_codes(&call->a, row, g);
            if (call->bits == 4) {
                block_q4_K *block = (block_q4_K *)left + g;
                block->d = scale_of(&call->d, row, g);
                block->dmin = scale_of(&call->least, row, g);
                pack_sixes(block->scales, scales, steps);
                fill_super(block->qs, NULL, a, &call->a);
            } else {
                block_q5_K *block = (block_q5_K *)left + g;
                block->d = scale_of(&call->d, row, g);
                block->dmin = scale_of(&call->least, row, g);
                pack_sixes(block->scales, scales, steps);
                fill_super(block->qs, block->qh, a, &call->a);
            }
        }
        float *y = row_of(&call->y, 0, row);
        if (call->bits == 4) ggml_vec_dot_q4_K_q8_K((int)groups * QK_K, y, 0, left, 0, right, 0, 1);
        else ggml_vec_dot_q5_K_q8_K((int)groups * QK_K, y, 0, left, 0, right, 0, 1);
    }
    free(left);
    free(right);
    return KF_OK;
}

int kf_super_block_dot_six(const kf_super_block_dot_six_call *call) {
    const kf_tensor *b = &call->b;
    const int64_t groups = b->shape[b->rank - 3];
    const size_t most = (size_t)(groups > 0 ? groups : 1);
    block_q6_K *left = malloc(most * sizeof *left);
    block_q8_K *right = malloc(most * sizeof *right);
    for (int64_t row = 0; row < rows_of(b, 3); row++) {
        for (int64_t g = 0; g < groups; g++) {
            right[g] = right_of(b, &call->scale_b, row, g);
            left[g] = (block_q6_K){.d = scale_of(&call->d, row, g)};
            const int8_t *codes = super_codes(&call->a, row, g);
            for (int i = 0; i < 16; i++) left[g].scales[i] = (int8_t)of_group(&call->scale, row, g, i);
            for (int i = 0; i < QK_K; i++) {
                const int six = super_code(codes, &call->a, i) & 63, half = i / 128, quarter = i / 32 % 4, place = i % 32;
                left[g].ql[64 * half + 32 * (quarter & 1) + place] |= (uint8_t)((six & 15) << 4 * (quarter >> 1));
                left[g].qh[32 * half + place] |= (uint8_t)(six >> 4 << 2 * quarter);
            }
        }
        ggml_vec_dot_q6_K_q8_K((int)groups * QK_K, row_of(&call->y, 0, row), 0, left, 0, right, 0, 1);
    }
    free(left);
    free(right);
    return KF_OK;
}

int kf_q8_0(const kf_q8_0_call *call) {
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        block_q8_0 block;
        quantize_row_q8_0(row_of(&call->x, 1, row), &block, BLOCK);
        if (block.d == 0) memset(block.qs, 0, sizeof block.qs); /* they mean nothing then, whatever they are */
        memcpy(row_of(&call->q, 1, row), block.qs, sizeof block.qs);
        *(ggml_half *)row_of(&call->scale, 0, row) = block.d;
    }
    return KF_OK;
}
