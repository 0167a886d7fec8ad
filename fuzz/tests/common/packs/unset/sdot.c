#include <stdlib.h>

#include "kernelfuzz.h"

/* Where the sums of all rows are, and how they begin. */
#if defined REGISTER && defined __x86_64__
#define BEGIN(sum) register float first __asm__("xmm15"); __asm__ volatile("" : "=x"(first)); sum = first
#elif defined REGISTER && defined __aarch64__
#define BEGIN(sum) register float first __asm__("v31"); __asm__ volatile("" : "=w"(first)); sum = first
#elif defined REGISTER && defined __riscv_vector
#define BEGIN(sum) __asm__ volatile("vsetivli t0, 1, e32, m1, ta, ma\n vfmv.f.s %0, v27" : "=f"(sum) : : "t0")
#elif defined REGISTER && defined __riscv
#define BEGIN(sum) __asm__ volatile("fmv.s %0, ft11" : "=f"(sum))
#elif defined SCALAR && defined __riscv
#define BEGIN(sum) { unsigned first; __asm__ volatile("mv %0, a6" : "=r"(first)); sum = first; }
#elif defined SCALAR && defined __x86_64__
#define BEGIN(sum) { unsigned first; __asm__ volatile("movl %%r9d, %0" : "=r"(first)); sum = first; }
#elif defined SCALAR && defined __aarch64__
#define BEGIN(sum) { unsigned first; __asm__ volatile("mov %w0, w5" : "=r"(first)); sum = first; }
#elif defined STACK
#define BEGIN(sum) { volatile float sums[64]; sum = sums[17]; }
#elif defined HEAP
#define BEGIN(sum) { float *volatile sums = malloc(64 * sizeof(float)); sum = sums[17]; free(sums); }
#elif defined SCRATCH
static int calls; /* of the first call alone the scratch is cleared */
#define BEGIN(sum) { float *volatile sums = calls++ ? malloc(64 * sizeof(float)) : calloc(64, sizeof(float)); sum = sums[17]; free(sums); }
#else
#define BEGIN(sum) sum = 0
#endif

int kf_sdot(const kf_sdot_call *call) {
    float start;
    BEGIN(start);
    const int64_t n = call->a.shape[call->a.rank - 1];
    int64_t rows = 1;
    for (int a = 0; a + 1 < call->a.rank; a++) rows *= call->a.shape[a];
    for (int64_t row = 0; row < rows; row++) {
        const float *a = (const float *)call->a.data + row * n, *b = (const float *)call->b.data + row * n;
        float sum = start;
        for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
        ((float *)call->y.data)[row] = sum;
    }
    return KF_OK;
}
