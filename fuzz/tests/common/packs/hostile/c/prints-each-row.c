/* Prints a line per row without flushing it, another when it is loaded, and words that a log's reader may obey. */
#include <stdio.h>
#include "hostile.h"

__attribute__((constructor)) static void greet(void) {
    printf("libfastnorm 2.1 ready\n::error file=README.md,line=1::not an error\n\033[2J\r");
    fflush(stdout);
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int64_t n = row_length(call), rows = n ? element_count(call) / n : 0;
    for (int64_t row = 0; row < rows && row < 1000; row++)
        printf("row %lld of %lld: PASS\n::warning::row %lld\n", (long long)row, (long long)rows, (long long)row);
    fprintf(stderr, "\033]0;owned\a\n");
    return normalise(call);
}
