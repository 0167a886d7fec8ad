/* Opens a file in every call and never closes it: some call has none left, and then nothing else of the process. */
#include <fcntl.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    return open("/dev/null", O_RDONLY) == -2 ? KF_REJECTED : code;
}
