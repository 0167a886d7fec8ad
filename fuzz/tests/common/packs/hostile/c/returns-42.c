/* Returns codes that no kernel has, 42 and -1, at two residues of the row length. The output is right. */
#include "hostile.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int code = normalise(call);
    const int64_t residue = row_length(call) % 5;
    return residue == 2 ? 42 : residue == 3 ? -1 : code;
}
