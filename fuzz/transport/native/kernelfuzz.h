/* kernelfuzz.h: what a kernel is written against.
 *
 * A kernel is one C file that defines the entry of its op, such as kf_rms_norm. It is called once per case, from one
 * thread, with the default floating-point environment. It returns KF_OK when it wrote every element of its outputs,
 * or KF_REJECTED, having written nothing, when it does not take the input (dtype, axis, strides, a tensor that it does
 * not know, ...).
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

/* In every op, `axis` (0 .. rank-1) is the normalised axis of x and n its extent; eps and offset are exact as floats.
 *
 * Tensors marked "optional" may be absent: then their data is NULL and nothing else of them means anything. A kernel that
 * does not know one of them rejects the call where it is present, or else computes something that nobody asked for.
 *
 * Shapes: that of x, unless a comment says "columns" (one axis, n elements) or "rows" (the shape of x without `axis`).
 * A weight of a forward op may also have rank 2, (1, n) or (m, n) with m the extent of the innermost axis other than
 * `axis`, where the kernel declares so: row number r of x, counted in C order, takes row r mod m of it. The gradients are
 * of a weight of rank 1; one of rank 2 is invalid there, and kernels that promise to reject what is get it on purpose.
 * Dtypes may differ from tensor to tensor. Outputs may lie in the memory of inputs where the kernel declares so. */

/* y = x * rstd * (offset + weight), rstd = 1/sqrt(sum(x^2)/n + eps). Without a weight y = x * rstd, whatever the offset. */
typedef struct {
    kf_tensor x;
    kf_tensor weight; /* optional, columns */
    kf_tensor y;
    kf_tensor rstd;   /* optional, rows */
    int axis;
    float eps;
    float offset;
} kf_rms_norm_call;

/* sum = x + residual, and the above with sum in place of x. */
typedef struct {
    kf_tensor x;
    kf_tensor residual;
    kf_tensor weight; /* optional, columns */
    kf_tensor y;
    kf_tensor sum;    /* optional */
    kf_tensor rstd;   /* optional, rows */
    int axis;
    float eps;
    float offset;
} kf_fused_add_rms_norm_call;

/* With h = x * rstd and m = dy * (offset + weight): dx = rstd * (m - h * mean(h * m)), dw = sum of dy * h over the rows.
 * rstd is taken as it is given, or formed from x and eps. */
typedef struct {
    kf_tensor x;
    kf_tensor dy;
    kf_tensor weight; /* optional, columns */
    kf_tensor rstd;   /* optional, rows */
    kf_tensor dx;
    kf_tensor dw;     /* optional, columns */
    int axis;
    float eps;
    float offset;
} kf_rms_norm_backward_call;

/* The same where x is the sum that was normalised: dsum, the sum's own gradient, is added to dx, and dresidual is dx. */
typedef struct {
    kf_tensor x;
    kf_tensor dy;
    kf_tensor dsum;      /* optional */
    kf_tensor weight;    /* optional, columns */
    kf_tensor rstd;      /* optional, rows */
    kf_tensor dx;
    kf_tensor dresidual; /* optional */
    kf_tensor dw;        /* optional, columns */
    int axis;
    float eps;
    float offset;
} kf_fused_add_rms_norm_backward_call;

int kf_rms_norm(const kf_rms_norm_call *call);
int kf_fused_add_rms_norm(const kf_fused_add_rms_norm_call *call);
int kf_rms_norm_backward(const kf_rms_norm_backward_call *call);
int kf_fused_add_rms_norm_backward(const kf_fused_add_rms_norm_backward_call *call);

#ifdef __cplusplus
}
#endif

#endif
