/* Starts a thread in every call that waits for a condition which never comes true, 200 at most. */
#include <pthread.h>
#include "hostile.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *wait_for_work(void *nothing) {
    pthread_mutex_lock(&mutex);
    for (;;) pthread_cond_wait(&never, &mutex);
    return nothing;
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    pthread_t helper;
    pthread_attr_t small;
    if (call_number() <= 200) {
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 1 << 16);
        pthread_create(&helper, &small, wait_for_work, 0);
        pthread_attr_destroy(&small);
    }
    return normalise(call);
}
