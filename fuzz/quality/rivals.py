"""Usual tests of kernels, beside which a search is measured: the inputs that they draw, and the errors that they allow.
All of them are given the exact result, rounded to the dtype of the output: a better reference than any of them has."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fuzz.campaign.tolerance import PLAIN, TORCH, Tolerance, dtypes_of, ordinary_draw
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.draw import GIVEN, Draw, Part
from fuzz.core.base.dtypes import quantise
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate.given import given_rows
from fuzz.core.generate.menus import LIKE_FIRST, menus_of
from fuzz.core.generate.realise import realise
from fuzz.core.judge.judge import Judge
from oracles.doubledouble import F64, head
from oracles.dtypes import FORMATS, NARROW
from oracles.enclosure import Mask, compare
from oracles.op import Extents, Op
from oracles.operand import AXIS, OUTER, Operand
from oracles.ops import OPS
from oracles.rounding import round_to

Fill = Callable[[str, tuple[int, ...]], Reals]
"""Returns the values of an input, by its name and shape."""
Passes = Callable[[F64, F64, str], bool]
"""Whether a test passes an output, beside the exact one, rounded, both of this dtype."""
_ROWS, _N, _SIDE, _BATCH = 64, 1024, 64, 2
"""The usual extents: rows and their length, sides of matrices, and what is before these. Chosen."""
_MOST_WORK = 1 << 22
"""The most terms of a step of a formula: the oracle takes 0.1 s for them."""
_EXAMPLES, _LONGEST, _SPAN = 100, 100, 100.0
"""The number of examples that Hypothesis tries by default; and chosen: the largest extent that it draws, and the
largest size of values, since the sums of larger ones overflow in correct kernels."""


@dataclass(frozen=True)
class Rival:
    """A usual test of a kernel."""

    name: str
    cases: Callable[[Kernel, int], Iterator[Case]]
    """Yields the cases that it tries, drawn from a seed."""
    passes: Passes

    def accuses(self, judge: Judge, target: Target, outcome: Outcome) -> bool:
        """Whether it says that a kernel is wrong. A call that does not return fails every test; what a call does beside
        its outputs is seen by none."""
        if outcome.status is not Status.RAN or outcome.fault is not None:
            return True
        got = judge.oracle.receive(judge.bits(outcome)).values
        for name, each in judge.oracle.truth.enclosures(target.contract, judge.case.structured).items():
            left: Mask = np.ones(got[name].shape, bool) if each.unjudged is None else ~each.unjudged
            if each.places:
                is_wrong = bool((compare(each, got[name]).failing & left).any())
            else:
                with np.errstate(all="ignore"):
                    right = round_to(head(each.centre), each.form)
                is_wrong = bool(left.any()) and not self.passes(got[name][left], right[left], each.form.name)
            if is_wrong:
                return True
        return False


def usual_cases(fill: Callable[[int], Fill], trials: int = 1) -> Callable[[Kernel, int], Iterator[Case]]:
    """Return a function that yields trials at the usual shape: for each dtype that a kernel takes with all that it can
    be given, and with as little as it needs."""

    def cases(kernel: Kernel, seed: int) -> Iterator[Case]:
        for (dtype, whole), trial in product(_setups(kernel), range(trials)):
            case = _case(kernel, dtype, whole, fill(seed * trials + trial), seed)
            if case is not None:
                yield case

    return cases


def normal(seed: int) -> Fill:
    """Return a source of standard normal values, like torch.randn."""
    return lambda name, shape: Stream(seed).child(name).normal(math.prod(shape)).reshape(shape)


def uniform(seed: int) -> Fill:
    """Return a source of uniform values from 0 to 1, like torch.rand."""
    return lambda name, shape: Stream(seed).child(name).uniform(math.prod(shape)).reshape(shape)


def hypothesis_cases(kernel: Kernel, seed: int) -> Iterator[Case]:
    """Yield what Hypothesis draws where somebody writes the strategy by hand: extents from 1 on, and finite values."""
    setups, found = _setups(kernel), list[Case]()

    def one(data: st.DataObject) -> None:
        dtype, whole = data.draw(st.sampled_from(setups))
        usual = _extents(OPS[kernel.op])
        sizes = {dim: data.draw(st.integers(1, min(_LONGEST, most)), label=dim) for dim, most in usual.items()}
        # NumPy has no bf16: arrays of f32 are rounded to it.
        numpy, width = (np.float16, 16) if dtype == "f16" else (np.float32, 32)

        def fill(name: str, shape: tuple[int, ...]) -> Reals:
            floats = st.floats(-_SPAN, _SPAN, width=width)  # type: ignore[arg-type]  # of literals
            drawn: Reals = data.draw(arrays(numpy, shape, elements=floats), label=name).astype(np.float64)
            return drawn

        case = _case(kernel, dtype, whole, fill, seed, sizes)
        found.extend([] if case is None else [case])

    quiet = settings(
        max_examples=_EXAMPLES, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    hypothesis.seed(seed)(quiet(given(st.data())(one)))()
    return iter(found)


def _close(got: F64, right: F64, dtype: str) -> bool:
    tolerance = TORCH.get(dtype, Tolerance("torch", 0.0, 0.0))  # integers must be equal
    return not tolerance.failing(got, right).any()


def _kernelbench(got: F64, right: F64, dtype: str) -> bool:
    most = 1e-2 if dtype in NARROW else 1e-4
    return not Tolerance("KernelBench", most, most).failing(got, right).any()


def _same(got: F64, right: F64, dtype: str) -> bool:
    """Ask torch's own comparison for compiled models, as its benchmark does: within a tolerance, or else with a root
    mean square error that is not far above the reference's own."""
    import torch
    from torch._dynamo.utils import same

    exact = torch.from_numpy(np.ascontiguousarray(right))
    own = getattr(torch, FORMATS[dtype].spelling) if dtype in FORMATS else torch.float64
    mine = torch.from_numpy(np.ascontiguousarray(got)).to(own)
    return bool(same(exact.to(own), mine, exact, tol=1e-3, equal_nan=True, log_error=logging.getLogger(__name__).debug))


RIVALS: tuple[Rival, ...] = (
    Rival("assert_close", usual_cases(normal), _close),
    Rival("assert_close, Hypothesis", hypothesis_cases, _close),
    Rival("KernelBench", usual_cases(uniform, trials=5), _kernelbench),
    Rival("torch same", usual_cases(normal), _same),
)


def _setups(kernel: Kernel) -> list[tuple[str, bool]]:
    return [(dtype, whole) for dtype in kernel.able.dtypes for whole in (True, False)]


def _case(kernel: Kernel, dtype: str, whole: bool, fill: Fill, seed: int, sizes: Extents | None = None) -> Case | None:
    """Return a case of ordinary values; None where the kernel does not take it, or there is none."""
    op = OPS[kernel.op]
    try:
        draw = _draw(kernel, op, dtype, whole, seed, {**_extents(op), **(sizes or {})})
        filled = [_filled(op, draw, part, fill) for part in draw.parts if op.is_input(part.name)]
        case = realise(draw.with_parts(*filled))
    except UsageError:
        return None
    return case if kernel.capability.accepts(case) else None


def _draw(kernel: Kernel, op: Op, dtype: str, whole: bool, seed: int, sizes: Extents) -> Draw:
    able = kernel.able
    steps = {dim: able.multiple_of.get(dim, 1) for dim in sizes}
    extents = {
        dim: max(steps[dim], min(n, able.max.get(dim, n)) // steps[dim] * steps[dim]) for dim, n in sizes.items()
    }
    wanted = {*able.needs, *(able.takes or ())} if whole else {*able.needs}
    there = {each.name for each in op.operands if not each.optional or each.name in wanted}
    there = {name for name in there if op.operand(name).only_with in {"", *there}}
    dtypes = dtypes_of(op, dtype)
    parts = [Part(each.name, dtypes[each.name], recipe=_recipe(op, each)) for each in op.operands if each.name in there]
    params: dict[str, float] = {AXIS: op.inputs[0].axes.index(op.row)}
    for each in op.parameters:
        if each.neutral is None:
            params[each.name] = each.values[0]
        elif whole and each.name in (able.params or ()) and each.only_with in {"", *there}:
            params[each.name] = next(value for value in each.values if value != each.neutral)
    first = next((dim for dim in op.inputs[0].axes if dim != op.row), "")
    return ordinary_draw(op, extents[op.row], extents.get(first, 1), params, seed, parts, extents)


def _extents(op: Op) -> dict[str, int]:
    """Return the usual extents: 64 rows of 1,024 elements, or matrices of 64 x 64, smaller ones if a formula has too
    many terms."""
    if op.named == (op.row,) and not op.fixed:
        return {OUTER: _ROWS, op.row: _N}
    sides = {dim for each in op.inputs if not each.optional for dim in each.axes[-2:]} - {OUTER}
    side, found = _SIDE * 2, dict[str, int]()
    while not found or (side > 1 and op.work(found) > _MOST_WORK):
        side //= 2
        found = {dim: side if dim in sides else _BATCH for dim in (OUTER, *op.named)} | {**op.fixed}
    return found


def _is_free(op: Op, operand: Operand) -> bool:
    """Whether an input may have any values: it is no place, code, probability or what another one says."""
    return bool({PLAIN, LIKE_FIRST} & {*menus_of(op)[operand.name].often})


def _recipe(op: Op, operand: Operand) -> str:
    if not op.is_input(operand.name):
        return ""
    return PLAIN if _is_free(op, operand) else menus_of(op)[operand.name].often[0]


def _filled(op: Op, draw: Draw, part: Part, fill: Fill) -> Part:
    if not _is_free(op, op.operand(part.name)):
        return part
    values = quantise(fill(part.name, draw.shape(part.name)), part.dtype)
    return replace(part, recipe=GIVEN, given=given_rows(values.reshape(draw.block(part.name))))
