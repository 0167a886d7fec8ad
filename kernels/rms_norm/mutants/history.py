"""Planted defects that one call never shows: something is kept from call to call by less than what it depends on."""

from __future__ import annotations

from fuzz import Mutant

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_BUFFER = "real *sums = malloc((size_t)call.x.shape[call.axis] * sizeof *sums);"
_FREED = "    free(sums);\n"
_ENTRY = "int kf_rms_norm(const kf_rms_norm_call *given) {\n    if (!has_elements(&given->x)) return KF_OK;\n"
_PLANNED = """
int kf_rms_norm(const kf_rms_norm_call *given) {
    static kf_rms_norm_call last;
    if (!has_elements(&given->x)) return KF_OK;
    bool same = last.eps == given->eps && last.weight_offset == given->weight_offset && last.x.rank == given->x.rank;
    same = same && is_present(&last.weight) == is_present(&given->weight);
    same = same && is_present(&last.rstd) == is_present(&given->rstd);
    for (int axis = 0; same && axis < given->x.rank; axis++)
        same = last.x.shape[axis] == given->x.shape[axis] && last.x.strides[axis] == given->x.strides[axis] &&
               last.y.strides[axis] == given->y.strides[axis];
    if (!same) planned = given->y.dtype;
    last = *given;
"""


def _keeps(
    name: str, base: str, edits: tuple[tuple[str, str], ...], trigger: str, provenance: str, *more: str
) -> Mutant:
    return Mutant(
        name, base, edits, ("*@native:*-O2",), trigger, (*_VALUE, *more), provenance, needs_history=True
    )  # fmt: skip


MUTANTS: tuple[Mutant, ...] = (
    _keeps(
        "weighted-eps-of-first-call", "weighted",
        (("(real)call->eps)", "({ static float first = -1; if (first < 0) first = call->eps; (real)first; }))"),),
        "an eps that is not that of the first call",
        "eps as a compile-time constant, left out of the key under which the compiled kernel is kept",
    ),
    _keeps(
        "add-buffer-of-first-call", "add-generic",
        (
            (_FREED, ""),
            (
                _BUFFER,
                "static int64_t room;\n    static real *sums;\n    int64_t *n = &call.x.shape[call.axis];\n"
                "    if (sums == NULL) sums = malloc((size_t)(room = *n) * sizeof *sums);\n"
                "    if (*n > room) *n = room;",
            ),
        ),
        "a row longer than those of the first call",
        "a workspace allocated once, for the first shape that comes", "FAIL_UNWRITTEN",
    ),
    _keeps(
        "add-tail-of-longer-row", "add-generic",
        (
            (_FREED, ""),
            (
                _BUFFER,
                "static int64_t room;\n    static real *sums;\n    const int64_t n = call.x.shape[call.axis];\n"
                "    if (n > room) {\n        free(sums);\n"
                "        sums = calloc((size_t)(room = (n + 7) / 8 * 8), sizeof *sums);\n    }",
            ),
            ("for (int64_t i = 0; i < n; i++) total +=", "for (int64_t i = 0; i < (n + 7) / 8 * 8; i++) total +="),
        ),
        "n mod 8 != 0 after a longer row",
        "a padded buffer that is zero when it is new, and is not cleared when it is used again",
    ),
    _keeps(
        "weighted-plan-of-last-call", "weighted",
        (
            ("static void scale_row(", "static kf_dtype planned;\n\nstatic void scale_row("),
            ("store(&call->y, at(r, &call->y, i), y);", "store(&call->y, at(r, &call->y, i), rounded(planned, y));"),
            (_ENTRY, _PLANNED.lstrip("\n")),
        ),
        "all as in the call before but y's dtype",
        "a plan kept from the last call by all but the dtype",
    ),
)  # fmt: skip
