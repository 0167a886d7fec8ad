/* kernelfuzz.h: what a kernel is written against.
 *
 * A kernel is C or C++ that defines the entry of its op, kf_NAME, and includes kernelfuzz.h: this text, followed by
 * the structure and the entry of each op that the kernel names. `kernelfuzz header NAME` prints them. The entry is called
 * once per case, from one thread, with the default floating-point environment. It returns KF_OK when it wrote every
 * element of its outputs, or KF_REJECTED, having written nothing, when it does not take the input (dtype, axis, strides, a
 * tensor that it does not know, ...).
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

/* Element types, beside the names that NumPy, ml_dtypes and torch have for them. Those that C does not have are handed
 * over as unsigned integers of their size: bf16 is the upper half of binary32, and bool is 0 or 1. */
typedef enum {
    KF_DTYPES
} kf_dtype;

/* Element [i0, i1, ...] is at data + i0 * strides[0] + i1 * strides[1] + ..., counted in elements, not bytes.
 * Strides may be 0 or negative; a rank of 0 is a single element; an extent of 0 is a tensor without elements. */
typedef struct {
    void *data;
    kf_dtype dtype;
    int rank;
    int64_t shape[KF_MAX_RANK];
    int64_t strides[KF_MAX_RANK];
} kf_tensor;

/* The structure of every op has its inputs, its outputs, `axis`, and its parameters, which are exact as floats.
 *
 * A comment gives each tensor's dimensions. The first input decides them: `axis` (0 .. rank-1) is the place of the last of
 * its dimensions, which are written as if that were behind all others; "..." are the others, in order.
 *
 * Tensors marked "optional" may be absent: then their data is NULL and nothing else of them means anything. A kernel that
 * does not know one of them rejects the call where it is present, or else computes something that nobody asked for.
 *
 * A tensor marked "stackable" may also have rank 2, [1, n] or [m, n] with m the extent of the innermost axis other than
 * `axis`, where the kernel declares so: row number r of the first input, counted in C order, takes row r mod m of it. Any
 * other of rank 2 in place of 1 is invalid, and kernels that promise to reject what is get it on purpose. Dtypes may
 * differ from tensor to tensor. Outputs may lie in the memory of inputs where the kernel declares so. */

/* The ops follow. */

#ifdef __cplusplus
}
#endif

#endif
