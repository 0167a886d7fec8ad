/* Sets a timer that goes off 30 ms later, when something else may be running: the default action ends the process. */
#include <sys/time.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() % 9 == 0) {
        const struct itimerval later = {.it_value = {.tv_usec = 30000}};
        setitimer(ITIMER_REAL, &later, 0);
    }
    return normalise(call);
}
