"""Kernels of a pack that take f64 are judged as calculated in it, where they do not say otherwise."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzz
from fuzz.core.adapters.prototyped_kernel import SharedKernel
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.registry import Entry
from fuzz.findings.tally import coarse
from fuzz.references.derive import op_of
from oracles.formula.contract import Contract
from oracles.ops import OPS, register
from oracles.tests.common.whole import WHOLE

_CASES, _LARGEST = (128, 4096) if WHOLE else (24, 256)
_F64 = ("f64",)
_BODIES = {
    "softmax": "(x, axis=-1):\n    e = np.exp(x - x.max(axis, keepdims=True))\n"
    "    return e / e.sum(axis, keepdims=True)",
    "row_sum": "(x, axis=-1):\n    return x.sum(axis)",
    "row_mean": "(x, axis=-1):\n    return x.mean(axis)",
    "log_softmax": "(x, axis=-1):\n    s = x - x.max(axis, keepdims=True)\n"
    "    return s - np.log(np.exp(s).sum(axis, keepdims=True))",
    "layer_norm": "(x, eps, weight=None, bias=None, axis=-1):\n    c = x - x.mean(axis, keepdims=True)\n"
    "    y = c / np.sqrt((c * c).mean(axis, keepdims=True) + x.dtype.type(eps))\n"
    "    y = y if weight is None else y * weight\n    return y if bias is None else y + bias",
    "halved_norm": "(x):\n    root = np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(1e-3))\n"
    "    return x / root * x.dtype.type(0.5)",
}
"""NumPy calculates in the dtype of what it is given."""
_HEAD = """import functools
import numpy as np


def plain(f):
    return f


def narrow(f):
    @functools.wraps(f)
    def g(x, **more):
        more = {name: each.astype(np.float32) if isinstance(each, np.ndarray) else each for name, each in more.items()}
        return f(x.astype(np.float32), **more).astype(x.dtype)
    return g


"""


def _halved_norm(x: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-3) * 0.5


def _kernel(
    folder: Path, op: str, contract: Contract, way: str = "plain", dtypes: tuple[str, ...] = ("f64",)
) -> Kernel:
    if op not in OPS:
        register(op_of(_halved_norm, {"x": "... n"}, name=op))
    (folder / "mine.py").write_text(f"{_HEAD}@{way}\ndef {op}{_BODIES[op]}\n")
    return PythonKernel("mine", op, folder / "mine.py", "numpy", contract, Capabilities(tuple(dtypes), empty=False))


def _verdicts(kernel: Kernel) -> set[Verdict]:
    [target] = expand([kernel], this_host())
    drawn = (each.case for batch in batches(Search(kernel.op, 5, [kernel])) for each in batch)
    cases = list(islice((case for case in drawn if case.elements <= _LARGEST), _CASES))
    with WorkerPool([target]) as pool:
        outcomes = pool.submit(cases).outcomes()
        return {EntryJudge(Entry(case), each).judge(target).verdict for case, each in zip(cases, outcomes, strict=True)}


@pytest.mark.some(1)
@pytest.mark.parametrize("op", _BODIES)
def test_what_is_calculated_in_f64_is_right_and_in_f32_only_as_that(op: str, tmp_path: Path) -> None:
    assert _verdicts(_kernel(tmp_path, op, Contract())) == {Verdict.PASS}
    assert Verdict.FAIL_NUMERIC in _verdicts(_kernel(tmp_path, op, Contract(), "narrow"))
    assert _verdicts(_kernel(tmp_path, op, Contract("f32"), "narrow")) == {Verdict.PASS}


def test_of_16_bits_the_sum_of_a_chart_is_in_f32() -> None:
    assert [coarse(Contract(), dtype) for dtype in ("bf16", "f32", "f64")] == [True, False, False]


@pytest.mark.parametrize("mean", ["double", "float"])
def test_a_function_of_a_library_that_takes_doubles_is_calculated_in_them(mean: str, tmp_path: Path) -> None:
    """Whatever it stores beside."""
    prototype = f"void f(const double *x, double *y, {mean} *rstd, long rows, long n, double eps)"
    kernel = SharedKernel("f", "rms_norm", tmp_path / "libf.so", prototype)
    assert kernel.able.dtypes == ("f64",)
    assert kernel.contract.settled({"x": "f64"}).compute == "f64"


@pytest.mark.whole
@pytest.mark.parametrize(("dtypes", "meant"), [(_F64, "f64"), (("f32", "f64"), "at least f32")])
def test_a_check_says_that_f64_is_calculated_in_f32(dtypes: tuple[str, ...], meant: str) -> None:
    import torch

    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    def mine(x: Any) -> Any:
        return softmax(x.float()).to(x.dtype)

    able = Capabilities(dtypes, empty=False)
    with pytest.raises(fuzz.CheckFailed, match=f"right as f32; wrong as {meant}"):
        fuzz.check(mine, reference=softmax, shapes="x=b n", capabilities=able, max_cases=30, seed=1)


@pytest.mark.whole
def test_a_reference_that_casts_to_f32_lets_a_kernel_keep_f64() -> None:
    import torch

    def softmax(x: Any) -> Any:
        return torch.softmax(x.float(), -1).to(x.dtype)

    def total(x: Any) -> Any:
        return x.float().sum(-1).to(x.dtype)

    able = Capabilities(_F64, empty=False)
    for reference, wide in ((softmax, lambda x: torch.softmax(x, -1)), (total, lambda x: x.sum(-1))):
        for right in (reference, wide):
            fuzz.check(right, reference=reference, shapes="x=b n", capabilities=able, max_cases=60, seed=1)
    with pytest.raises(fuzz.CheckFailed, match="f64 is judged as calculated in f32 at"):
        fuzz.check(
            lambda x: softmax(x.bfloat16()).double(), reference=softmax, shapes="x=b n", capabilities=able, seed=1,
            max_cases=60,
        )  # fmt: skip
