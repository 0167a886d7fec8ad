/* Leaves a process behind that belongs to nobody: forked twice, in a session of its own, all descriptors open, deaf to
 * SIGTERM, for a minute. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() == 5) {
        const pid_t child = fork();
        if (child == 0) {
            setsid();
            if (fork() == 0) {
                signal(SIGTERM, SIG_IGN);
                signal(SIGHUP, SIG_IGN);
                for (int second = 0; second < 60; second++) sleep(1);
            }
            _exit(0);
        }
        if (child > 0) waitpid(child, 0, 0);
    }
    return normalise(call);
}
