/* A thread keeps a pointer to a local variable of a call that has returned, and writes there for five seconds. */
#include <pthread.h>
#include <unistd.h>
#include "hostile.h"

static volatile char *progress;

static void *report(void *nothing) {
    for (int tick = 0; tick < 5000; tick++) {
        for (int i = 0; i < 512; i++) progress[i] = (char)tick;
        usleep(1000);
    }
    return nothing;
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    volatile char local[512];
    pthread_t reporter;
    if (call_number() == 6) {
        progress = local;
        if (pthread_create(&reporter, 0, report, 0) == 0) pthread_detach(reporter);
    }
    return normalise(call);
}
