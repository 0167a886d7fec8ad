/* Ends the process when it is loaded, with status 0, as a library does that finds no license. */
#include <stdio.h>
#include <unistd.h>
#include "hostile.h"

__attribute__((constructor)) static void check_license(void) {
    fprintf(stderr, "no license found\n");
    _exit(0);
}

int kf_rms_norm(const kf_rms_norm_call *call) { return normalise(call); }
