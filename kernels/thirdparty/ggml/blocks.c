/* ggml's products of rows that are stored in blocks of 32 codes, which are made here of codes and scales. */
#include "codes.h"

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
