"""Every kernel with optional tensors, on cases made by hand: all combinations, judged by the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path

import pytest

from fuzz import CKernel
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Layout
from fuzz.core.base.outcome import Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.handmade import LayOut, a_case, dense, padded
from oracles.ops import OPS

PACK = load(Path(__file__).resolve().parents[2])
IN_C = [kernel for kernel in PACK.kernels if isinstance(kernel, CKernel) and kernel.able.optional]
DRAWN = [op.name for op in OPS.values() if not op.any_axis or op.further or op.integers]
"""Ops whose cases are not made by hand."""
KERNELS = [kernel for kernel in IN_C if kernel.op not in DRAWN]
NAMES = [kernel.name for kernel in KERNELS]
OTHERS = [kernel for kernel in IN_C if kernel.op in DRAWN]


def targets_of(kernel: CKernel) -> Mapping[str, Target]:
    return {target.id: target for target in expand([kernel], this_host()) if target.name.opt == "O2"}


def subsets(kernel: CKernel) -> Iterator[tuple[str, ...]]:
    takes = kernel.able.optional
    for size in range(len(takes) + 1):
        yield from combinations(takes, size)


def laid(kernel: CKernel) -> LayOut:
    """The hardest layout that the kernel takes."""
    return padded if kernel.able.strides == "any" else dense


def judged(kernel: CKernel, cases: list[Case]) -> None:
    targets = targets_of(kernel)
    with WorkerPool(list(targets.values())) as pool:
        results = pool.submit(cases).outcomes()
    for case, outcomes in zip(cases, results, strict=True):
        assert outcomes
        judge = Judge(case)
        for name, outcome in outcomes.items():
            judgement = judge.judge(outcome, targets[name].contract)
            assert judgement.verdict is Verdict.PASS, (name, judgement.reason, judgement.worst, case)


@pytest.mark.some(2)
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_every_combination_of_optional_tensors(kernel: CKernel) -> None:
    offsets = (0.0, 1.0) if kernel.able.params else (0.0,)
    judged(
        kernel, [a_case(kernel.op, with_, offset=o, layout=laid(kernel)) for with_ in subsets(kernel) for o in offsets]
    )


@pytest.mark.some(1)
@pytest.mark.parametrize("kernel", OTHERS, ids=lambda kernel: kernel.name)
def test_kernels_of_other_ops_are_right_in_drawn_cases(kernel: CKernel) -> None:
    turns = islice(batches(Search(kernel.op, 5, [kernel], sequences=False)), 3)
    cases = [made.case for turn in turns for made in turn if kernel.capability.accepts(made.case)]
    assert len(cases) > 32
    judged(kernel, cases)


@pytest.mark.some(3)
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_every_dtype_and_axis(kernel: CKernel) -> None:
    able = kernel.able
    grids = (((5, 7, 3), 0), ((5, 7, 3), 1), ((5, 7, 3), 2), ((9,), 0), ((1, 6), 1), ((6, 1), 1), ((2, 300), 1))
    taken = [(grid, axis) for grid, axis in grids if able.axis == "any" or axis == len(grid) - 1]
    judged(
        kernel,
        [
            a_case(kernel.op, able.optional, grid, axis, dtype, layout=laid(kernel))
            for dtype in able.dtypes for grid, axis in taken
        ],
    )  # fmt: skip


@pytest.mark.some(5)
@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_every_declared_alias(kernel: CKernel) -> None:
    able = kernel.able
    sets = [dict(pairs) for size in (1, 2) for pairs in combinations(able.aliases, size)]
    disjoint = [pairs for pairs in sets if len(set(pairs.values())) == len(pairs)]
    judged(kernel, [a_case(kernel.op, able.optional, alias=pairs, layout=laid(kernel)) for pairs in disjoint])


@pytest.mark.some(1)
@pytest.mark.parametrize("tensor", ["weight", "rstd"])
def test_kernels_that_take_no_optional_tensor_reject_it(tensor: str) -> None:
    """Given one all the same: ignoring a weight would be a wrong result that nobody notices."""
    able = replace(KERNELS[0].capabilities, dtypes=("f32",))
    plain = [k for k in PACK.kernels if k.op == "rms_norm" and not k.able.optional]
    targets = [t for t in expand([replace(k, capabilities=able) for k in plain], this_host()) if t.name.opt == "O2"]
    case = a_case("rms_norm", (tensor,), layout=dense)
    with WorkerPool(targets) as pool:
        (outcomes,) = pool.submit([case]).outcomes()
    assert len(outcomes) >= 3, "generic, composed and dispatch run everywhere"
    assert {outcome.status for outcome in outcomes.values()} == {Status.REJECTED}


def test_strides_of_what_has_no_element_are_of_no_importance() -> None:
    kernel = next(kernel for kernel in KERNELS if kernel.name == "layer-norm-neon")
    far = {name: lambda shape: Layout(shape, (7,)) for name in ("mean", "rstd")}
    judged(kernel, [a_case("layer_norm", ("weight", "mean", "rstd"), (0, 5), layouts=far, layout=dense)])
