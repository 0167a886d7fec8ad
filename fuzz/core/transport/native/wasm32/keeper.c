/* keeper.c: a module starts nothing, and ends with its host. */
#include "../worker.h"

enum { PAGE_BYTES = 64 * 1024 };

void keep_worker(int in, int out) {
    (void)in;
    (void)out;
}

/* The process is the host's, which has no name for it here. */
void put_process(FILE *out) {
    fprintf(out, "page=%d\n", PAGE_BYTES);
}

void set_guard(uint32_t seconds) {
    (void)seconds;
}

void renew_guard(uint32_t seconds, const struct timespec *now) {
    (void)seconds;
    (void)now;
}
