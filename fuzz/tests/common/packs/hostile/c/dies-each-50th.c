/* Aborts in every 50th call of a process, whatever it is given. */
#include <stdio.h>
#include <stdlib.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() % 50 == 0) {
        fprintf(stderr, "assertion failed: workspace != previous\n");
        abort();
    }
    return normalise(call);
}
