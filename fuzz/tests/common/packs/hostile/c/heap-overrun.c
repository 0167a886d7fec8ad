/* Writes 40 bytes past a block of the heap in every 10th call: whoever asks the heap for memory next finds it broken. */
#include <stdlib.h>
#include <string.h>
#include "hostile.h"

static char *volatile kept;
static void *volatile scratch;

int kf_rms_norm(const kf_rms_norm_call *call) {
    scratch = malloc(4096 + (size_t)row_length(call) * sizeof(float));
    const int code = normalise(call);
    free(scratch);
    if (call_number() % 10 == 0) {
        kept = malloc(24 + (size_t)row_length(call) % 1000);
        const size_t size = 24 + (size_t)row_length(call) % 1000;
        if (kept) memset(kept, 0x7f, size + 40);
    }
    return code;
}
