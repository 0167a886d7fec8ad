/* A sampling profiler that is never stopped: a signal each millisecond, whose handler does not restart system calls. */
#include <signal.h>
#include <sys/time.h>
#include "hostile.h"

static volatile sig_atomic_t samples;

static void sample(int signal_number) { samples += signal_number != 0; }

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() == 4) {
        struct sigaction action = {.sa_handler = sample};
        sigaction(SIGALRM, &action, 0);
        sigaction(SIGPROF, &action, 0);
        const struct itimerval each = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
        setitimer(ITIMER_REAL, &each, 0);
        setitimer(ITIMER_PROF, &each, 0);
    }
    return normalise(call);
}
