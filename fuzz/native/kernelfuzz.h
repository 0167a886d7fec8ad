/* kernelfuzz.h: what a kernel is written against.
 *
 * A kernel is one C file that defines the entry of its op, here kf_rms_norm. It is called once per case, from one
 * thread, with the default floating-point environment. It returns KF_OK when it wrote every element of its outputs,
 * or KF_REJECTED, having written nothing, when it does not take the input (dtype, axis, strides, ...).
 *
 * What a kernel may touch: it reads the elements of its inputs, and writes the elements of its outputs. Everything else
 * is watched: memory past either end of a tensor, gaps between its elements, inputs. Nothing is aligned beyond its
 * element size unless the kernel's declared capabilities ask for it.
 */
#ifndef KERNELFUZZ_H
#define KERNELFUZZ_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KF_MAX_RANK = 6 };

enum { KF_OK = 0, KF_REJECTED = 1 };

/* Element types. f16 is IEEE binary16 and bf16 the upper half of binary32, both handed over as uint16_t. */
typedef enum { KF_F16 = 1, KF_BF16 = 2, KF_F32 = 3, KF_F64 = 4 } kf_dtype;

/* Element [i0, i1, ...] is at data + i0 * strides[0] + i1 * strides[1] + ..., counted in elements, not bytes.
 * Strides may be 0 or negative; a rank of 0 is a single element; an extent of 0 is a tensor without elements. */
typedef struct {
    void *data;
    kf_dtype dtype;
    int rank;
    int64_t shape[KF_MAX_RANK];
    int64_t strides[KF_MAX_RANK];
} kf_tensor;

/* y = x * 1/sqrt(sum(x^2)/n + eps) along `axis` (0 .. rank-1), n = x.shape[axis].
 * x and y have the same shape and dtype; in place means y.data == x.data, with the same strides. */
typedef struct {
    kf_tensor x;
    kf_tensor y;
    int axis;
    float eps;
} kf_rms_norm_call;

int kf_rms_norm(const kf_rms_norm_call *call);

#ifdef __cplusplus
}
#endif

#endif
