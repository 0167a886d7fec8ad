/* loop.c: a kernel of rms_norm called on one batch after another, timed as a whole. It is linked to the kernel in place of
 * the worker: guarded memory, poison and digests take far longer than the kernel. */
#include <time.h>

#include "kernelfuzz.h"

/* Seconds for `count` calls one after the other, all of them `repeats` times; a negative number where one is rejected. */
double kf_seconds(const kf_rms_norm_call *calls, int count, int repeats)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int repeat = 0; repeat < repeats; repeat++)
        for (int i = 0; i < count; i++)
            if (kf_rms_norm(&calls[i]) != KF_OK)
                return -1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}
