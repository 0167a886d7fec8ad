/* Asks to be traced by its parent: from then on a signal stops the process where it should end it. Every 13th call
 * faults. */
#include <sys/ptrace.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const long number = call_number();
    if (number == 1) ptrace(PTRACE_TRACEME, 0, 0, 0);
    if (number % 13 == 0) *(volatile int *)0 = 1;
    return normalise(call);
}
