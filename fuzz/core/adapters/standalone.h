/* What the data of a program are, which `export.py` writes; `standalone.c` follows them. */
#include <stddef.h>
typedef struct { int64_t index; double low, high; unsigned rule; } kfs_allowed;
typedef struct {
    const char *name;
    int is_output, home, after;
    kf_dtype dtype;
    int rank;
    int64_t shape[KF_MAX_RANK], strides[KF_MAX_RANK], offset, lowest, extent;
    const void *bits;
    const kfs_allowed *allowed;
    int64_t expected;
    const int32_t *from;
    char *first, *region;
    size_t bytes;
} kfs_tensor;
enum { KFS_MOST_TENSORS = @most@ };
typedef struct {
    int count;
    kfs_tensor tensors[KFS_MOST_TENSORS];
    int (*enter)(const kfs_tensor *);
} kfs_call;

static kf_tensor kfs_given(const kfs_tensor *t) {
    kf_tensor given = {t->first, t->dtype, t->rank, {0}, {0}};
    for (int axis = 0; axis < t->rank; axis++) {
        given.shape[axis] = t->shape[axis];
        given.strides[axis] = t->strides[axis];
    }
    return given;
}
