/* Makes standard output and error non-blocking: a setting that everybody shares who has the same pipe or terminal. */
#include <fcntl.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() % 7 == 0)
        for (int descriptor = 1; descriptor <= 2; descriptor++)
            fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    return normalise(call);
}
