/* log_softmax.c: three passes over each row: its greatest element, the sum of exponentials, the result. The greatest
 * element is taken off first: added to the logarithm it would take its last bits away. */
#include "rows.h"

static void log_softmax_row(const kf_tensor *x, const kf_tensor *y, const row *r) {
    const float greatest = greatest_of(x, r), logarithm = logf(mass_of(x, r, greatest));
    for (int64_t i = 0; i < r->n; i++) store(y, at(r, y, i), load(x, at(r, x, i)) - greatest - logarithm);
}

int kf_log_softmax(const kf_log_softmax_call *call) {
    return over_rows(&call->x, &call->y, call->axis, log_softmax_row);
}
