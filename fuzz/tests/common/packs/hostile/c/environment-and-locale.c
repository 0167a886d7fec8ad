/* Changes what the whole process shares: locale, environment variables, and one of them in memory that it then reuses. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include "hostile.h"

static char shared[64];

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() % 6 == 0) {
        if (!setlocale(LC_ALL, "de_DE.UTF-8")) setlocale(LC_ALL, "C.UTF-8"); /* "de" writes 0,5 for 0.5 */
        setenv("LC_ALL", "de_DE.UTF-8", 1);
        setenv("TMPDIR", "/nowhere", 1);
        setenv("OMP_NUM_THREADS", "zero", 1);
        unsetenv("HOME");
        unsetenv("PATH");
        strcpy(shared, "KERNEL_MODE=fast");
        putenv(shared);
        memset(shared, '=', 8); /* the environment points here */
    }
    return normalise(call);
}
