/* Reads far past its input under a handler of its own that jumps back from the fault, and leaves the handler there:
 * every later fault of the process jumps into a frame that is gone. */
#include <setjmp.h>
#include <signal.h>
#include "hostile.h"

static sigjmp_buf back;

static void swallow(int signal_number) { siglongjmp(back, signal_number); }

int kf_rms_norm(const kf_rms_norm_call *call) {
    struct sigaction action = {.sa_handler = swallow, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    if (call->x.data && sigsetjmp(back, 1) == 0) {
        volatile float seen = 0.0f;
        const volatile float *end = (const float *)call->x.data + element_count(call);
        for (int i = 0; i < 4096; i++) seen += end[i];
    }
    return normalise(call);
}
