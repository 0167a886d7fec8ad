/* Ends the thread that called it in every 12th call, while another thread keeps the process alive for a minute. */
#include <pthread.h>
#include <unistd.h>
#include "hostile.h"

static void *stay(void *nothing) {
    for (int second = 0; second < 60; second++) sleep(1);
    return nothing;
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    pthread_t other;
    if (call_number() % 12 == 0 && pthread_create(&other, 0, stay, 0) == 0) pthread_exit(0);
    return normalise(call);
}
