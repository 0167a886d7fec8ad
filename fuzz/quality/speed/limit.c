/* limit.c: what no kernel of two passes is faster than. It loads each row and adds it up, then loads it again and stores
 * its product with a number that waits for no sum, in vectors of VECTOR_BYTES. Linked in place of a kernel; rows of f32,
 * each right after the one before. */
#include "kernelfuzz.h"

#if VECTOR_BYTES == 64
#define WIDE __attribute__((target("avx512f")))
#elif VECTOR_BYTES == 32
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
enum { LANES = VECTOR_BYTES / 4 };

#if defined(__x86_64__)
#define IN_REGISTER(vector) "x"(vector)
#else
#define IN_REGISTER(vector) "w"(vector)
#endif

/* Eight vectors at a time: with fewer the additions wait for each other. */
#define EIGHT(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)
#define AT(k) (i + (k) * LANES)

static WIDE void add_up(const float *x, int64_t n) {
#define ZERO(k) vector sum##k = {0};
#define ADD(k) sum##k += *(const vector *)(x + AT(k));
#define KEEP(k) __asm__ volatile("" : : IN_REGISTER(sum##k));
    int64_t i = 0;
    EIGHT(ZERO)
    for (; i + 8 * LANES <= n; i += 8 * LANES) { EIGHT(ADD) }
    for (; i + LANES <= n; i += LANES) ADD(0)
    EIGHT(KEEP) /* or the compiler leaves the sums out */
}

static WIDE void multiply(const float *x, float *y, int64_t n, float scale) {
#define STORE(k) *(vector *)(y + AT(k)) = *(const vector *)(x + AT(k)) * scale;
    int64_t i = 0;
    for (; i + 8 * LANES <= n; i += 8 * LANES) { EIGHT(STORE) }
    for (; i + LANES <= n; i += LANES) STORE(0)
    for (; i < n; i++) y[i] = x[i] * scale;
}

WIDE int kf_rms_norm(const kf_rms_norm_call *call) {
    const int64_t n = call->x.shape[1];
    for (int64_t row = 0; row < call->x.shape[0]; row++) {
        const float *x = (const float *)call->x.data + row * n;
        add_up(x, n);
        multiply(x, (float *)call->y.data + row * n, n, call->eps);
    }
    return KF_OK;
}
