/* Returns before its work is done: a thread writes the output again 3 ms later, whosever the memory is by then. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "hostile.h"

static void *finish(void *work) {
    kf_rms_norm_call *call = work;
    usleep(3000);
    float *y = call->y.data;
    const int64_t count = element_count(call);
    for (int64_t i = 0; i < count; i++) y[i] = 1234.5f;
    free(call);
    return 0;
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    kf_rms_norm_call *work = call_number() % 5 == 0 ? malloc(sizeof *work) : 0;
    if (work && code == KF_OK) {
        pthread_t worker;
        *work = *call;
        if (pthread_create(&worker, 0, finish, work) == 0) pthread_detach(worker);
    }
    return code;
}
