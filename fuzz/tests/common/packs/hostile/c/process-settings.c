/* Makes itself at home: lowest priority, one processor, locked memory, no files readable by others, a borrowed name,
 * not to be inspected, and not to die with its parent. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (call_number() == 3) {
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET(sched_getcpu(), &here);
        sched_setaffinity(0, sizeof here, &here);
        setpriority(PRIO_PROCESS, 0, 19);
        mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT); /* on fault: what is sparse must stay so */
        umask(0777);
        prctl(PR_SET_NAME, "systemd) R 1 1\n");
        prctl(PR_SET_DUMPABLE, 0);
        prctl(PR_SET_PDEATHSIG, 0);
    }
    return normalise(call);
}
