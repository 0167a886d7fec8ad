/* Never ends where a row has 65 elements; as a kindness it gives up after five minutes of processor time. */
#include <stdlib.h>
#include <time.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (row_length(call) == 65) {
        const clock_t end = clock() + 300 * CLOCKS_PER_SEC;
        while (clock() < end) continue;
        _Exit(1);
    }
    return normalise(call);
}
