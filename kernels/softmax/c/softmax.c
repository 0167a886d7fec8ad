/* softmax.c: three passes over each row: its greatest element, the sum of exponentials, the result. Exponentials are
 * formed twice, so that a row needs no memory of its own. */
#include "rows.h"

static void softmax_row(const kf_tensor *x, const kf_tensor *y, const row *r) {
    const float greatest = greatest_of(x, r), mass = mass_of(x, r, greatest);
    for (int64_t i = 0; i < r->n; i++) store(y, at(r, y, i), expf(load(x, at(r, x, i)) - greatest) / mass);
}

int kf_softmax(const kf_softmax_call *call) { return over_rows(&call->x, &call->y, call->axis, softmax_row); }
