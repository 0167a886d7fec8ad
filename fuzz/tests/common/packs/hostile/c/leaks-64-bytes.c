/* Forgets 64 bytes in every call. */
#include <stdlib.h>
#include <string.h>
#include "hostile.h"

static char *volatile forgotten;

int kf_rms_norm(const kf_rms_norm_call *call) {
    forgotten = malloc(64);
    if (forgotten) memset(forgotten, 1, 64);
    return normalise(call);
}
