/* convention.c: the engine keeps the calling convention. */
#include "../worker.h"

int kf_enter(int (*kernel)(const void *), const void *call) {
    return kernel(call);
}
