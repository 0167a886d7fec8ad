/* Forgets 4 KiB in every call, 1 GiB at most. */
#include <stdlib.h>
#include <string.h>
#include "hostile.h"

static char *volatile forgotten;

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() < 1 << 18) {
        forgotten = malloc(4096);
        if (forgotten) memset(forgotten, 1, 4096);
    }
    return normalise(call);
}
