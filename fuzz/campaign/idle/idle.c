/* idle.c: a kernel that takes nothing. */
#include "kernelfuzz.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    (void)call;
    return KF_REJECTED;
}
