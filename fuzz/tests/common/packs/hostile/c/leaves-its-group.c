/* Leaves the process group that it was started in, where a signal to the group does not reach it, ignores SIGTERM, and
 * hangs in every 100th call. */
#include <signal.h>
#include <unistd.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const long number = call_number();
    if (number == 1) {
        if (setsid() < 0) setpgid(0, 0);
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
    }
    if (number % 100 == 0) {
        for (int second = 0; second < 300; second++) sleep(1);
        _exit(1);
    }
    return normalise(call);
}
