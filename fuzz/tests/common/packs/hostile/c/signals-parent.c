/* Signals its parent as a terminal would: SIGHUP, SIGUSR1, then SIGINT, which looks like Ctrl-C. */
#include <signal.h>
#include <unistd.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const long number = call_number();
    const pid_t parent = getppid();
    if (parent > 1 && number == 4) kill(parent, SIGHUP);
    if (parent > 1 && number == 9) kill(parent, SIGUSR1);
    if (parent > 1 && number == 14) kill(parent, SIGINT);
    return normalise(call);
}
