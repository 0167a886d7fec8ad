/* Logs two megabytes to standard error in every 10th call, 32 at most in one process. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    static int floods;
    if (call_number() % 10 == 0 && floods++ < 16) {
        char line[4096];
        memset(line, '#', sizeof line);
        line[sizeof line - 1] = '\n';
        for (int i = 0; i < 512; i++)
            if (write(2, line, sizeof line) < 0) break;
    }
    return normalise(call);
}
