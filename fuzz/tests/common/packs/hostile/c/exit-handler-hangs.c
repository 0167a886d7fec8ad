/* A handler that runs when the process ends, and waits a minute there, deaf to SIGTERM. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "hostile.h"

static void linger(void) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    for (int second = 0; second < 60; second++) sleep(1);
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() == 1) atexit(linger);
    return normalise(call);
}
