"""Every kernel with optional tensors, on cases made by hand: all combinations, judged by the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from fuzz import CKernel
from fuzz.case import Case, Layout, Output, Tensor, contiguous
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target, expand
from fuzz.execute.toolchain import this_host
from fuzz.generate.formats import quantise
from fuzz.judge.judge import Judge
from fuzz.op import OPS
from fuzz.outcome import Status
from fuzz.pack import load
from fuzz.verdict import Verdict

PACK = load(Path(__file__).resolve().parent.parent)
KERNELS = [kernel for kernel in PACK.kernels if kernel.capabilities.takes]
NAMES = [kernel.name for kernel in KERNELS]


def targets_of(kernel: CKernel) -> Mapping[str, Target]:
    return {target.id: target for target in expand([kernel], this_host()) if target.opt == "O2"}


def subsets(kernel: CKernel) -> Iterator[tuple[str, ...]]:
    takes = kernel.capabilities.takes
    for size in range(len(takes) + 1):
        yield from combinations(takes, size)


def a_case(
    kernel: CKernel,
    with_: tuple[str, ...],
    grid: tuple[int, ...] = (3, 37),
    axis: int = -1,
    dtype: str = "f32",
    alias: Mapping[str, str] | None = None,
    offset: float = 0.0,
    layout: Callable[[tuple[int, ...]], Layout] | None = None,
) -> Case:
    lay_out = layout or padded
    op, axis = OPS[kernel.op], axis % len(grid)
    rng = np.random.default_rng(7)
    inputs, outputs = {}, {}
    for operand in op.inputs:
        if operand.optional and operand.name not in with_:
            continue
        of = "f32" if operand.name == "rstd" and dtype != "f64" else dtype
        shape = op.shape(operand.name, grid, axis)
        values = rng.standard_normal(shape) + (2 if operand.name == "rstd" else 0.5)
        positive = np.abs(values) if operand.name == "rstd" else values
        inputs[operand.name] = Tensor(of, lay_out(shape), quantise(positive, of).tobytes())
    for operand in op.outputs:
        if operand.optional and operand.name not in with_:
            continue
        shape = op.shape(operand.name, grid, axis)
        of = "f32" if operand.name == "rstd" else dtype
        source = (alias or {}).get(operand.name)
        outputs[operand.name] = Output(of, inputs[source].layout if source else lay_out(shape), source)
    return Case(op.name, {"eps": float(np.float32(1e-3)), "axis": axis, "offset": offset}, inputs, outputs)


def padded(shape: tuple[int, ...]) -> Layout:
    """Backwards, with a step along every axis: no two of them collapse, and nothing is contiguous."""
    strides, reach = [0] * len(shape), 2
    for axis in reversed(range(len(shape))):
        strides[axis] = -reach
        reach = reach * shape[axis] + 3
    return Layout(shape, tuple(strides))


def judged(kernel: CKernel, cases: list[Case]) -> None:
    targets = targets_of(kernel)
    with WorkerPool(list(targets.values())) as pool:
        results = pool.collect(pool.submit(cases))
    for case, outcomes in zip(cases, results, strict=True):
        assert outcomes
        judge = Judge(case)
        for name, outcome in outcomes.items():
            judgement = judge.judge(outcome, targets[name].numerics)
            assert judgement.verdict is Verdict.PASS, (name, judgement.reason, judgement.worst, case)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_every_combination_of_optional_tensors(kernel: CKernel) -> None:
    judged(kernel, [a_case(kernel, with_, offset=offset) for with_ in subsets(kernel) for offset in (0.0, 1.0)])


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_every_dtype_and_axis(kernel: CKernel) -> None:
    able = kernel.capabilities
    grids = (((5, 7, 3), 0), ((5, 7, 3), 1), ((5, 7, 3), 2), ((9,), 0), ((1, 6), 1), ((6, 1), 1), ((2, 300), 1))
    judged(kernel, [a_case(kernel, able.takes, *grid, dtype) for dtype in able.dtypes for grid in grids])


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_every_declared_alias(kernel: CKernel) -> None:
    able = kernel.capabilities
    sets = [dict(pairs) for size in (1, 2) for pairs in combinations(able.aliases, size)]
    disjoint = [pairs for pairs in sets if len(set(pairs.values())) == len(pairs)]
    judged(kernel, [a_case(kernel, able.takes, alias=pairs) for pairs in disjoint])


@pytest.mark.parametrize("tensor", ["weight", "rstd"])
def test_kernels_that_take_no_optional_tensor_reject_it(tensor: str) -> None:
    """Given one all the same: ignoring a weight would be a wrong result that nobody notices."""
    able = replace(KERNELS[0].capabilities, dtypes=("f32",))
    plain = [k for k in PACK.kernels if k.op == "rms_norm" and not k.capabilities.takes]
    targets = [t for t in expand([replace(k, capabilities=able) for k in plain], this_host()) if t.opt == "O2"]
    case = a_case(KERNELS[0], (tensor,), layout=contiguous)
    with WorkerPool(targets) as pool:
        (outcomes,) = pool.collect(pool.submit([case]))
    assert len(outcomes) >= 3, "generic, composed and dispatch run everywhere"
    assert {outcome.status for outcome in outcomes.values()} == {Status.REJECTED}
