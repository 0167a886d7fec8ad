/* Uses the call that it is given as its own variables: what is read from it afterwards is wrong. */
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    kf_rms_norm_call *own = (kf_rms_norm_call *)call;
    own->x.data = 0;
    own->y.data = (void *)16;
    own->y.rank = -1;
    own->y.shape[0] = own->x.shape[0] = INT64_MAX / 8;
    own->axis = 77;
    return code;
}
