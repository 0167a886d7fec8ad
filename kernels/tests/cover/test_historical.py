"""Kept cases of documented bugs in kernels with several tensors: the bug fails its case, the right kernel passes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.registry import Entry
from fuzz.findings.casefile import load as load_case

PACK = load(Path(__file__).resolve().parents[2])
HISTORICAL = Path(__file__).resolve().parents[3] / "corpora" / "historical"


@dataclass(frozen=True)
class Bug:
    """A documented bug as edits of a right kernel, and the verdict on its case."""

    base: str
    edits: tuple[tuple[str, str], ...]
    verdict: str = "FAIL_NUMERIC"


_TWICE = "total += h * weighted_dy(call, r, i);"
_ROW = "const real rstd = rstd_of(call, r), projection = projection_of(call, r, rstd);"
_DW = "        if (dw != NULL) dw[i] += load(&call->dy, at(r, &call->dy, i)) * h;\n"
_DX = "        store(&call->dx, at(r, &call->dx, i), dx);\n"
_DY = ("const real dy = load(&call->dy, at(r, &call->dy, i));", "const real dy = load(&call->dy, at(r, &call->dx, i));")
_MIXED = """gradient_call mixed = given;
    static float sums[64];
    for (int i = 0; i < 64; i++) sums[i] = ((const float *)call->dy.data)[i] + ((const float *)call->dsum.data)[i];
    mixed.dy.data = sums;
    mixed.dsum.data = NULL;
    return differentiate(&mixed);"""

BUGS = {
    "b038": Bug("add-generic", (("at(r, &call->residual, i)", "at(r, &call->x, i)"),), "FAIL_NONFINITE"),
    "b054": Bug("add-generic", (("if (is_present(&call->sum)) store", "if (0) store"),)),
    "b052": Bug(
        "add-generic",
        (("        if (is_present(&call->sum)) store",
          "        store(&call->residual, at(r, &call->residual, i), sums[i]);\n"
          "        if (is_present(&call->sum)) store"),),
        "FAIL_INPUT_MODIFIED",
    ),
    "b088": Bug("weighted-llama", (("y = rounded(call->x.dtype, y);", ""),)),
    "b091": Bug("weighted", (("i, call->weight_offset)", "i, 0)"),)),
    "b092": Bug("weighted", (("i, call->weight_offset)", "i, 2 * call->weight_offset)"),)),
    "b094": Bug(
        "weighted",
        (("y *= scale_of(r, &call->weight, i, call->weight_offset);",
          "{ kf_tensor weight = call->weight; weight.dtype = call->x.dtype; y *= scale_of(r, &weight, i, 0); }"),),
        "FAIL_NONFINITE",
    ),
    "b043": Bug(
        "weighted",
        (("y *= scale_of(r, &call->weight, i, call->weight_offset);",
          "{ kf_tensor weight = call->weight; weight.strides[0] = 1; y *= scale_of(r, &weight, i, 0); }"),),
        "FAIL_MEMORY",
    ),
    "b082": Bug(
        "weighted", (("if (is_present(&call->rstd)) store", "if (is_present(&call->rstd) && r.index[0] == 0) store"),),
        "FAIL_UNWRITTEN",
    ),
    "b081": Bug("weighted", (("at_row(&r, &call->rstd), rstd)", "at_row(&r, &call->rstd), 1 / (rstd * rstd))"),)),
    "b112": Bug("add-backward-generic", (("return differentiate(&given);", _MIXED),)),
    "b113": Bug(
        "backward-generic", ((_TWICE, f"{_TWICE[:-1]} * scale_of(r, &call->weight, i, call->weight_offset);"),)
    ),
    "b114": Bug(
        "backward-generic",
        ((_ROW, "static real tile;\n    if (r->index[0] == 0) tile = 0;\n    const real rstd = rstd_of(call, r);\n"
                "    tile += projection_of(call, r, rstd);\n    const real projection = tile;"),),
    ),
    "b115": Bug("backward-generic", (("i < call->dw.shape[0]", "i < 0"),), "FAIL_UNWRITTEN"),
    "b116": Bug("backward-generic", ((_DW, ""), (_DX, _DX + _DW))),
    "b033": Bug("backward-generic", (_DY,)),
    "b034-dy": Bug("backward-generic", (_DY,), "FAIL_MEMORY"),
    "b042": Bug(
        "backward-generic", (("return total / (real)r->n;", "return total / (real)(call->x.shape[1] * r->n);"),)
    ),
    "b080": Bug(
        "backward-generic",
        (("return load(&call->rstd, at_row(r, &call->rstd));",
          "return rounded(call->x.dtype, load(&call->rstd, at_row(r, &call->rstd)));"),),
    ),
    "b100": Bug(
        "backward-generic",
        ((_DW, _DW.replace("* h;", "* (h * scale_of(r, &call->weight, i, 0) / scale_of(r, &call->weight, i, 0));")),),
        "FAIL_NONFINITE",
    ),
}  # fmt: skip


def _case(name: str) -> Case:
    [path] = HISTORICAL.glob(f"{name}-{'?' * 12}.json")
    return load_case(path)[0]


@pytest.mark.some(3)
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fails_its_case_and_the_right_kernel_passes_it(name: str) -> None:
    bug = BUGS[name]
    right, entry = PACK.kernel(bug.base), Entry(_case(name))
    assert isinstance(right, CKernel)
    expanded = expand([right, replace(right, name=name, edits=bug.edits)], this_host())
    targets = [target for target in expanded if target.id.endswith("@native:gcc-O2")]
    with WorkerPool(targets) as pool:
        [outcomes] = pool.submit([entry.case]).outcomes()
    judge = EntryJudge(entry, outcomes)
    assert [judge.judge(target).verdict.value for target in targets] == ["PASS", bug.verdict]
