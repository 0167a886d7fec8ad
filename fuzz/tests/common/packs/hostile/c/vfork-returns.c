/* Returns from the child of a vfork in every 15th call: the child answers in its parent's memory, on its stack. */
#include <unistd.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() % 15 == 0 && vfork() == 0) alarm(60); /* the child does not live for ever */
    return normalise(call);
}
