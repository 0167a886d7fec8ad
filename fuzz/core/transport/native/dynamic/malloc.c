/* malloc.c: what a shared library asks of malloc is filled too, though it was linked before: a function that the program
 * exports goes before that of the C library. Only of glibc, which has its own under other names besides. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#ifdef __GLIBC__
void *fill_fresh(void *block, size_t from, size_t bytes); /* poison.c */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

void *malloc(size_t bytes) {
    return fill_fresh(__libc_malloc(bytes), 0, bytes);
}

void *calloc(size_t count, size_t bytes) {
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
    const size_t had = block != NULL ? malloc_usable_size(block) : 0;
    return fill_fresh(__libc_realloc(block, bytes), had, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    return fill_fresh(__libc_memalign(alignment, bytes), 0, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
    void *const made = memalign(alignment, bytes);
    if (made == NULL) return ENOMEM;
    *block = made;
    return 0;
}

void free(void *block) {
    __libc_free(block);
}
#endif
