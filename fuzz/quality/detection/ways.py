"""Ways to test a kernel: which inputs, what they compare with, and how far off a value may be.

All of them are given the same reference, the exact result rounded to the dtype of the output: a better one than any
test has, so that what is missed is missed by inputs and tolerances alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fuzz.base.case import Case
from fuzz.base.kernel import Kernel
from fuzz.base.stream import Reals
from fuzz.quality.detection.usual import Fill, Setup, case_of, extents_of, normal, setups, uniform
from fuzz.uses.corpus.suites import Suite, Sweep, expand
from fuzz.uses.tolerance.others import TORCH, Tolerance
from oracles.doubledouble import F64
from oracles.enclosure import Mask
from oracles.op import Op
from oracles.ops import OPS

Wrong = Callable[[str, F64, F64], Mask]
"""The elements of an output, by its name, that are not what is expected."""
_SIDES = (64, 128, 256, 512, 1024)
"""Lengths of rows, as usual tests have them."""
_ROWS = (1, 8, 64)
_EXAMPLES = 100
"""As many as Hypothesis tries where nobody says another number."""
_LONGEST = 100
"""The largest extent that it draws."""
_SPAN = 100.0
"""It draws values of at most this size: of any size, correct kernels overflow."""
_TRIALS = {"KernelBench": 5, "flashinfer-bench": 3}
_EXACT = Tolerance("torch", 0.0, 0.0)
"""The tolerance of integers, and of what has no default one."""


@dataclass(frozen=True)
class Trial:
    """One case of a test. Without `wrong` the outcome is judged by this tool."""

    case: Case
    wrong: Wrong | None = None


@dataclass(frozen=True)
class Way:
    """One way to test kernels."""

    name: str
    facts: str
    """What is compared with what, in a line."""
    trials: Callable[[Kernel, int], Iterable[Trial]]
    """Those for a kernel, by a seed; none where it has no test of the op."""


def plain_data(kernel: Kernel, seed: int) -> Iterator[Trial]:
    """Our judge without our generator: normal and uniform values, round shapes."""
    op = OPS[kernel.op]
    first = next((dim for dim in op.inputs[0].axes if dim != op.row), "")
    for number, (rows, n, fill) in enumerate(product(_ROWS, _SIDES, (normal, uniform))):
        extents = {first: rows, op.row: n} if op.named == (op.row,) else {}
        for setup in setups(kernel):
            yield from _tried(kernel, Setup(setup.dtype, setup.whole, extents), fill(seed + number), seed + number)


def close(kernel: Kernel, seed: int) -> Iterator[Trial]:
    """assert_close with its defaults, on normal values at the usual shape."""
    for setup in setups(kernel):
        yield from _tried(kernel, setup, normal(seed), seed, _torch(kernel, setup.dtype))


def hypothesis_arrays(kernel: Kernel, seed: int) -> Iterator[Trial]:
    """assert_close with its defaults, on what Hypothesis draws: extents from 1 on, and values of any kind but NaN and
    infinities."""
    op, choices, found = OPS[kernel.op], setups(kernel), list[Trial]()

    def one(data: st.DataObject) -> None:
        setup = data.draw(st.sampled_from(choices))
        drawn = _extents(op, data)
        found.extend(_tried(kernel, Setup(setup.dtype, setup.whole, drawn), _drawn(data, setup.dtype), seed,
                            _torch(kernel, setup.dtype)))  # fmt: skip

    quiet = settings(
        max_examples=_EXAMPLES, database=None, derandomize=True, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    quiet(given(st.data())(one))()
    return iter(found)


def kernelbench(kernel: Kernel, seed: int) -> Iterator[Trial]:
    """Five trials of allclose at one shape, on values of torch.rand."""
    for setup, trial in product(setups(kernel), range(_TRIALS["KernelBench"])):
        most = 1e-4 if setup.dtype in ("f32", "f64") else 1e-2
        allowed = _within(partial(_one, Tolerance("KernelBench", most, most)))
        yield from _tried(kernel, setup, uniform(seed + trial), seed + trial, allowed)


def flashinfer_bench(kernel: Kernel, seed: int) -> Iterator[Trial]:
    """Three trials on values of torch.randn: wrong is what is off by more than 0.01 and by more than 1% as well."""
    for setup, trial in product(setups(kernel), range(_TRIALS["flashinfer-bench"])):
        yield from _tried(kernel, setup, normal(seed + trial), seed + trial, _off_by_both)


def of_suite(suite: Suite) -> Way:
    """The sweeps of a published suite, with their own values, shapes and tolerances."""

    def trials(kernel: Kernel, seed: int) -> Iterator[Trial]:
        sweeps = tuple(sweep for sweep in suite.sweeps if sweep.op == kernel.op)
        for each in expand(Suite(suite.system, suite.source, sweeps)):
            dtype = each.case.inputs[OPS[kernel.op].main].dtype
            if kernel.capability.accepts(each.case):
                yield Trial(each.case, _within(_published(each.sweep, dtype, each.case)))

    return Way(suite.system, f"its own sweeps and tolerances: {suite.source}", trials)


WAYS: tuple[Way, ...] = (
    Way("kernelfuzz, plain data", "this tool's judge, on normal and uniform values of round shapes", plain_data),
    Way("assert_close", "torch.testing.assert_close with its defaults, normal values, one usual shape", close),
    Way(
        "assert_close, Hypothesis",
        f"the same on {_EXAMPLES} examples of hypothesis.extra.numpy, extents to {_LONGEST}, values to {_SPAN:g}",
        hypothesis_arrays,
    ),
    Way("KernelBench", "5 trials of allclose, 1e-4 (16 bits: 1e-2), torch.rand, one shape (423217d)", kernelbench),
    Way("flashinfer-bench", "3 trials, wrong by 1e-2 and by 1%, torch.randn, one shape (40e6ca78)", flashinfer_bench),
)
"""Those that have a test of every op. What others publish as lists of shapes are suites."""


def _tried(kernel: Kernel, setup: Setup, fill: Fill, seed: int, wrong: Wrong | None = None) -> Iterator[Trial]:
    case = case_of(kernel, setup, fill, seed)
    if case is not None:
        yield Trial(case, wrong)


def _torch(kernel: Kernel, main: str) -> Wrong:
    dtypes = {each.name: each.dtype for each in OPS[kernel.op].operands}
    return _within(lambda name: TORCH.get(_resolved(dtypes, name, main), _EXACT))


def _resolved(dtypes: Mapping[str, str], name: str, main: str) -> str:
    """The dtype of an operand, which may be that of another one, or else that of the first."""
    said = dtypes[name]
    return _resolved(dtypes, said, main) if said in dtypes else said or main


def _one(tolerance: Tolerance, name: str) -> Tolerance:
    """The same for every output."""
    return tolerance


def _within(tolerance: Callable[[str], Tolerance]) -> Wrong:
    return lambda name, got, expected: tolerance(name).failing(got, expected)


def _off_by_both(name: str, got: F64, expected: F64) -> Mask:
    absolute, relative = Tolerance("flashinfer-bench", 1e-2, 0.0), Tolerance("flashinfer-bench", 0.0, 1e-2)
    return absolute.failing(got, expected) & relative.failing(got, expected)


def _published(sweep: Sweep, dtype: str, case: Case) -> Callable[[str], Tolerance]:
    """The tolerance of a sweep: that of the output, else of the dtype, else torch's."""

    def of(name: str) -> Tolerance:
        said = sweep.tolerance.get(name, sweep.tolerance.get(dtype))
        if said is None:
            return TORCH.get(case.outputs[name].dtype, _EXACT)
        return Tolerance(sweep.name, said.atol, said.rtol)

    return of


def _extents(op: Op, data: st.DataObject) -> Mapping[str, int]:
    """Extents from 1 on, no more of them large than the oracle has the time for."""
    usual, drawn = extents_of(op), dict[str, int]()
    for dim, size in usual.items():
        drawn[dim] = data.draw(st.integers(1, max(1, min(_LONGEST, size))), label=dim)
    return drawn


def _drawn(data: st.DataObject, dtype: str) -> Fill:
    """Arrays of Hypothesis; of bf16, which NumPy does not know, those of 32 bits."""
    floats = st.floats(-_SPAN, _SPAN, width=16 if dtype == "f16" else 32)

    def fill(name: str, shape: tuple[int, ...]) -> Reals:
        if not math.prod(shape):
            return np.zeros(shape)
        found: Reals = data.draw(
            arrays(np.float16 if dtype == "f16" else np.float32, shape, elements=floats), label=name
        )
        return found.astype(np.float64)

    return fill
