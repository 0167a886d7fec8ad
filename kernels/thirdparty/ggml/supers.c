/* ggml's products of rows that are stored in super-blocks of 256 codes, and what these stand for. */
#include "codes.h"

#include "ggml-quants.h"

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

/* What is stored of 8 groups, as codes of 4 or 5 bits have it. */
typedef struct {
    const kf_tensor *d, *scale, *a, *least, *step;
} eight_groups;

static void fill_eight(void *made, float bits, eight_groups from, int64_t row, int64_t g) {
    int scales[8], steps[8];
    for (int i = 0; i < 8; i++) {
        scales[i] = of_group(from.scale, row, g, i) & 63;
        steps[i] = of_group(from.step, row, g, i) & 63;
    }
    const int8_t *a = super_codes(from.a, row, g);
    if (bits == 4) {
        block_q4_K *block = (block_q4_K *)made + g;
        block->d = scale_of(from.d, row, g);
        block->dmin = scale_of(from.least, row, g);
        pack_sixes(block->scales, scales, steps);
        fill_super(block->qs, NULL, a, from.a);
    } else {
        block_q5_K *block = (block_q5_K *)made + g;
        block->d = scale_of(from.d, row, g);
        block->dmin = scale_of(from.least, row, g);
        pack_sixes(block->scales, scales, steps);
        fill_super(block->qs, block->qh, a, from.a);
    }
}

static block_q6_K six_of(const kf_tensor *d, const kf_tensor *scale, const kf_tensor *a, int64_t row, int64_t g) {
    block_q6_K made = {.d = scale_of(d, row, g)};
    const int8_t *codes = super_codes(a, row, g);
    for (int i = 0; i < 16; i++) made.scales[i] = (int8_t)of_group(scale, row, g, i);
    for (int i = 0; i < QK_K; i++) {
        const int six = super_code(codes, a, i) & 63, half = i / 128, quarter = i / 32 % 4, place = i % 32;
        made.ql[64 * half + 32 * (quarter & 1) + place] |= (uint8_t)((six & 15) << 4 * (quarter >> 1));
        made.qh[32 * half + place] |= (uint8_t)(six >> 4 << 2 * quarter);
    }
    return made;
}

/* How many super-blocks a row of codes has, and room for as many, or one. */
static int64_t supers_of(const kf_tensor *codes) {
    return codes->shape[codes->rank - 3];
}

static void *room_for(const kf_tensor *codes, size_t bytes) {
    const int64_t groups = supers_of(codes);
    return malloc((size_t)(groups > 0 ? groups : 1) * bytes);
}

int kf_super_block_dot(const kf_super_block_dot_call *call) {
    const eight_groups from = {&call->d, &call->scale, &call->a, &call->least, &call->step};
    const int n = (int)supers_of(&call->b) * QK_K;
    void *left = room_for(&call->b, sizeof(block_q5_K));
    block_q8_K *right = room_for(&call->b, sizeof *right);
    for (int64_t row = 0; row < rows_of(&call->b, 3); row++) {
        for (int64_t g = 0; g < supers_of(&call->b); g++) {
            right[g] = right_of(&call->b, &call->scale_b, row, g);
            fill_eight(left, call->bits, from, row, g);
        }
        float *y = row_of(&call->y, 0, row);
        if (call->bits == 4) ggml_vec_dot_q4_K_q8_K(n, y, 0, left, 0, right, 0, 1);
        else ggml_vec_dot_q5_K_q8_K(n, y, 0, left, 0, right, 0, 1);
    }
    free(left);
    free(right);
    return KF_OK;
}

int kf_super_block_dot_six(const kf_super_block_dot_six_call *call) {
    const int n = (int)supers_of(&call->b) * QK_K;
    block_q6_K *left = room_for(&call->b, sizeof *left);
    block_q8_K *right = room_for(&call->b, sizeof *right);
    for (int64_t row = 0; row < rows_of(&call->b, 3); row++) {
        for (int64_t g = 0; g < supers_of(&call->b); g++) {
            right[g] = right_of(&call->b, &call->scale_b, row, g);
            left[g] = six_of(&call->d, &call->scale, &call->a, row, g);
        }
        ggml_vec_dot_q6_K_q8_K(n, row_of(&call->y, 0, row), 0, left, 0, right, 0, 1);
    }
    free(left);
    free(right);
    return KF_OK;
}

/* A row of numbers, to where y has them. */
static void spread(const float *made, const kf_tensor *y, int64_t row) {
    const int64_t *shape = y->shape + y->rank - 3, *strides = y->strides + y->rank - 3;
    float *first = row_of(y, 3, row);
    for (int64_t i = 0; i < shape[0] * QK_K; i++) {
        const int64_t g = i / QK_K, s = i % QK_K / shape[2], k = i % shape[2];
        first[g * strides[0] + s * strides[1] + k * strides[2]] = made[i];
    }
}

int kf_super_block(const kf_super_block_call *call) {
    const eight_groups from = {&call->d, &call->scale, &call->a, &call->least, &call->step};
    const int n = (int)supers_of(&call->a) * QK_K;
    void *blocks = room_for(&call->a, sizeof(block_q5_K));
    float *made = room_for(&call->a, QK_K * sizeof *made);
    for (int64_t row = 0; row < rows_of(&call->a, 3); row++) {
        for (int64_t g = 0; g < supers_of(&call->a); g++) fill_eight(blocks, call->bits, from, row, g);
        if (call->bits == 4) dequantize_row_q4_K(blocks, made, n);
        else dequantize_row_q5_K(blocks, made, n);
        spread(made, &call->y, row);
    }
    free(blocks);
    free(made);
    return KF_OK;
}

int kf_super_block_six(const kf_super_block_six_call *call) {
    const int n = (int)supers_of(&call->a) * QK_K;
    block_q6_K *blocks = room_for(&call->a, sizeof *blocks);
    float *made = room_for(&call->a, QK_K * sizeof *made);
    for (int64_t row = 0; row < rows_of(&call->a, 3); row++) {
        for (int64_t g = 0; g < supers_of(&call->a); g++) {
            blocks[g] = six_of(&call->d, &call->scale, &call->a, row, g);
        }
        dequantize_row_q6_K(blocks, made, n);
        spread(made, &call->y, row);
    }
    free(blocks);
    free(made);
    return KF_OK;
}

int kf_q8_k(const kf_q8_k_call *call) {
    for (int64_t row = 0; row < rows_of(&call->x, 1); row++) {
        block_q8_K block;
        quantize_row_q8_K(row_of(&call->x, 1, row), &block, QK_K);
        dequantize_row_q8_K(&block, row_of(&call->y, 1, row), QK_K);
    }
    return KF_OK;
}
