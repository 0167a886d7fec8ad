/* paged_attention.c: the keys of a sequence page by page, all their scores, then their shares. Any strides and dtypes. */
#include "../../common/taken.h"

/* One head of one sequence. */
typedef struct {
    const kf_paged_attention_call *call;
    int64_t b, g, h;
} head;

/* The page of a key, or -1 where it is not there. */
static int64_t page_of(const head *at, int64_t key) {
    const kf_tensor *table = &at->call->table;
    return load_place(table, at->b * table->strides[0] + key / at->call->k.shape[1] * table->strides[1]);
}

/* Where a key's row begins in k or v. */
static int64_t row_of(const head *at, const kf_tensor *t, int64_t page, int64_t key) {
    return page * t->strides[0] + key % t->shape[1] * t->strides[1] + at->g * t->strides[2];
}

static int64_t length_of(const head *at) {
    return load_place(&at->call->lengths, at->b * at->call->lengths.strides[0]);
}

static float score(const head *at, int64_t key) {
    const kf_tensor *q = &at->call->q, *k = &at->call->k;
    const int64_t page = page_of(at, key);
    if (page < 0) return -INFINITY;
    const int64_t from = at->b * q->strides[0] + at->g * q->strides[1] + at->h * q->strides[2], to = row_of(at, k, page, key);
    float sum = 0.0f;
    for (int64_t d = 0; d < q->shape[3]; d++) sum += load(q, from + d * q->strides[3]) * load(k, to + d * k->strides[3]);
    return sum * at->call->softmax_scale;
}

/* A NaN among the scores is their maximum. */
static float larger(float most, float s) { return s > most || s != s ? s : most; }

static void attend(const head *at, float *p, float *acc) {
    const kf_tensor *v = &at->call->v, *o = &at->call->o, *lse = &at->call->lse;
    const int64_t keys = length_of(at), width = v->shape[3];
    float most = -INFINITY, mass = 0.0f;
    for (int64_t j = 0; j < keys; j++) most = larger(most, p[j] = score(at, j));
    for (int64_t e = 0; e < width; e++) acc[e] = 0.0f;
    for (int64_t j = 0; j < keys && most != -INFINITY; j++) {
        const int64_t page = page_of(at, j);
        if (page < 0) continue;
        const float share = expf(p[j] - most);
        mass += share;
        for (int64_t e = 0; e < width; e++) acc[e] += share * load(v, row_of(at, v, page, j) + e * v->strides[3]);
    }
    const int64_t to = at->b * o->strides[0] + at->g * o->strides[1] + at->h * o->strides[2];
    for (int64_t e = 0; e < width; e++) store(o, to + e * o->strides[3], most == -INFINITY ? 0.0f : acc[e] / mass);
    if (is_present(lse))
        store(lse, at->b * lse->strides[0] + at->g * lse->strides[1] + at->h * lse->strides[2], most + logf(most == -INFINITY ? 1.0f : mass));
}

static bool are_pages(const kf_tensor *table, int64_t pages) {
    for (int64_t b = 0; b < table->shape[0]; b++)
        for (int64_t t = 0; t < table->shape[1]; t++) {
            const int64_t page = load_place(table, b * table->strides[0] + t * table->strides[1]);
            if (page < -1 || page >= pages) return false;
        }
    return true;
}

static bool takes(const kf_paged_attention_call *c) {
    const kf_dtype dtype = c->q.dtype;
    if (!fits_float(&c->q) || !is_of(&c->k, dtype) || !is_of(&c->v, dtype)) return false;
    if (!is_of_or_f32(&c->o, dtype) || !is_of(&c->lse, KF_F32)) return false;
    if (!is_of_places(&c->table) || !are_pages(&c->table, c->k.shape[0])) return false;
    return is_of_places(&c->lengths) && are_places(&c->lengths, 0, c->table.shape[1] * c->k.shape[1] + 1);
}

int kf_paged_attention(const kf_paged_attention_call *call) {
    if (!takes(call)) return KF_REJECTED;
    const int64_t keys = call->table.shape[1] * call->k.shape[1], *shape = call->q.shape;
    float *p = malloc((size_t)(keys + call->v.shape[3] + 1) * sizeof(float));
    if (p == NULL) return KF_REJECTED;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t g = 0; g < shape[1]; g++)
            for (int64_t h = 0; h < shape[2]; h++) attend(&(head){call, b, g, h}, p, p + keys);
    free(p);
    return KF_OK;
}
