/* Calls a function that is in a file which was forgotten. */
#include "hostile.h"

int fast_normalise(const kf_rms_norm_call *call);

int kf_rms_norm(const kf_rms_norm_call *call) { return row_length(call) > 3 ? fast_normalise(call) : normalise(call); }
