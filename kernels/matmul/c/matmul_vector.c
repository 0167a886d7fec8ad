/* matmul_vector.c: tiles of four rows and a vector of columns, the terms of every second k in accumulators of their own.
 * Rows that the last tile does not have are the one before once more, and not stored; columns beyond the last are zeros;
 * the last k of an odd number goes to the first accumulators. */
#include "../../common/vector.h"
#include "grid.h"

enum { ROWS = 4, STEPS = 2 };

typedef struct {
    const float *a, *b, *bias;
    float *c;
    int64_t a_pitch, b_pitch, c_pitch, k;
    float relu;
} job;

static inline vector finished_vector(vector z, float relu) {
    float lanes[64];
    v_store(lanes, v_lanes(), z);
    for (size_t i = 0; i < v_lanes(); i++) lanes[i] = finished(lanes[i], relu);
    return v_load(lanes, v_lanes(), 0.0f);
}

static void finish(const job *j, int64_t row, int64_t column, size_t left, vector even, vector odd) {
    vector z = v_add(even, odd);
    if (j->bias != NULL) z = v_add(z, v_load(j->bias + column, left, 0.0f));
    v_store(j->c + row * j->c_pitch + column, left, finished_vector(z, j->relu));
}

/* `rows` rows of c, and a vector of columns of which `left` are left. */
static void tile(const job *j, int64_t row, int64_t rows, int64_t column, size_t left) {
    const float *a0 = j->a + row * j->a_pitch, *a1 = rows > 1 ? a0 + j->a_pitch : a0;
    const float *a2 = rows > 2 ? a1 + j->a_pitch : a1, *a3 = rows > 3 ? a2 + j->a_pitch : a2;
    vector even0 = v_all(0.0f), even1 = even0, even2 = even0, even3 = even0;
    vector odd0 = even0, odd1 = even0, odd2 = even0, odd3 = even0;
    const float *b = j->b + column;
    int64_t k = 0;
    for (; k + STEPS <= j->k; k += STEPS, b += STEPS * j->b_pitch) {
        const vector here = v_load(b, left, 0.0f), next = v_load(b + j->b_pitch, left, 0.0f);
        even0 = v_multiply_add(v_all(a0[k]), here, even0), odd0 = v_multiply_add(v_all(a0[k + 1]), next, odd0);
        even1 = v_multiply_add(v_all(a1[k]), here, even1), odd1 = v_multiply_add(v_all(a1[k + 1]), next, odd1);
        even2 = v_multiply_add(v_all(a2[k]), here, even2), odd2 = v_multiply_add(v_all(a2[k + 1]), next, odd2);
        even3 = v_multiply_add(v_all(a3[k]), here, even3), odd3 = v_multiply_add(v_all(a3[k + 1]), next, odd3);
    }
    if (k < j->k) {
        const vector last = v_load(b, left, 0.0f);
        even0 = v_multiply_add(v_all(a0[k]), last, even0), even1 = v_multiply_add(v_all(a1[k]), last, even1);
        even2 = v_multiply_add(v_all(a2[k]), last, even2), even3 = v_multiply_add(v_all(a3[k]), last, even3);
    }
    finish(j, row, column, left, even0, odd0);
    if (rows > 1) finish(j, row + 1, column, left, even1, odd1);
    if (rows > 2) finish(j, row + 2, column, left, even2, odd2);
    if (rows > 3) finish(j, row + 3, column, left, even3, odd3);
}

static void product(const job *j, int64_t m, int64_t n) {
    for (int64_t row = 0; row < m; row += ROWS)
        for (int64_t column = 0; column < n; column += (int64_t)v_lanes())
            tile(j, row, m - row < ROWS ? m - row : ROWS, column, (size_t)(n - column));
}

static bool has_unit_columns(const kf_tensor *t) { return !has_elements(t) || has_dense_rows(t, t->rank - 1); }

int kf_matmul(const kf_matmul_call *call) {
    const kf_tensor *a = &call->a, *b = &call->b, *c = &call->c, *bias = &call->bias;
    if (a->dtype != KF_F32 || b->dtype != KF_F32 || c->dtype != KF_F32) return KF_REJECTED;
    if (!is_dense_column(bias)) return KF_REJECTED;
    if (!has_elements(c)) return KF_OK;
    if (!has_unit_columns(a) || !has_unit_columns(b) || !has_unit_columns(c)) return KF_REJECTED;
    const int rows = a->rank - 2, columns = a->rank - 1;
    matrix at = {0};
    do {
        const job j = {
            .a = (const float *)a->data + start(&at, a), .b = (const float *)b->data + start(&at, b),
            .bias = bias->data, .c = (float *)c->data + start(&at, c),
            .a_pitch = a->strides[rows], .b_pitch = b->strides[rows], .c_pitch = c->strides[rows],
            .k = a->shape[columns], .relu = call->relu,
        };
        product(&j, c->shape[rows], c->shape[columns]);
    } while (next_matrix(&at, c));
    return KF_OK;
}
