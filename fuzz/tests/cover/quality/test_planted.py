"""The planted bugs: each strikes where it says and nowhere else, and what it does there is a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.base.case import Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE, quantise
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.outcome import Outcome, Status, Unwritten
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judge
from fuzz.quality.planted.bug import Array, PlantedCall
from fuzz.quality.planted.bugs import BUGS, CONDITIONS, PAIRS
from fuzz.quality.planted.kernels import FORMULAS, planted
from fuzz.tests.common.planted_calls import call_of, fails
from fuzz.tests.conftest import CHECKOUT
from oracles.operand import AXIS
from oracles.ops import OPS

Fill = Callable[[Array], None]
"""It changes values of a tensor, given row by row."""


@dataclass(frozen=True)
class Input:
    """An input that is plain but for what it says."""

    shape: tuple[int, ...] = (8, 16)
    dtype: str = "f32"
    layouts: Mapping[str, str] = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    in_place: Mapping[str, str] = field(default_factory=dict)
    axis: int = -1

    def case(self, kernel: Kernel) -> Case:
        """The case for a kernel, with all optional tensors that it needs."""
        op, dice = OPS[kernel.op], np.random.default_rng(0)
        axis = self.axis % len(self.shape)
        there = [each for each in op.operands if not each.optional or each.name in kernel.able.needs]
        inputs, outputs = dict[str, Tensor](), dict[str, Output]()
        for each in there:
            dtype = self.dtypes.get(each.name, self.dtype)
            layout = _layout(self.layouts.get(each.name, ""), op.shape(each.name, self.shape, axis))
            if not op.is_input(each.name):
                alias = self.in_place.get(each.name)
                outputs[each.name] = Output(dtype, inputs[alias].layout if alias else layout, alias)
                continue
            values = dice.uniform(0.5, 1.5, layout.shape) * dice.choice([-1.0, 1.0], layout.shape)
            if each.values.endswith("probabilities"):
                values = -np.abs(values)
            if each.name in self.fills:
                self.fills[each.name](values)
            inputs[each.name] = Tensor(dtype, layout, quantise(values, dtype).tobytes())
        return Case(op.name, {"axis": axis, **_parameters(kernel.op), **self.parameters}, inputs, outputs)


def _parameters(op: str) -> Mapping[str, float]:
    return {each.name: 1e-5 for each in OPS[op].parameters if each.neutral is None}


def _layout(words: str, shape: tuple[int, ...]) -> Layout:
    plain = contiguous(shape, "before")
    if words == "pitched":
        return Layout(shape, (*(stride + stride // shape[-1] for stride in plain.strides[:-1]), 1), "before")
    if words == "transposed":
        return Layout(shape, tuple(reversed(contiguous(shape[::-1]).strides)), "before")
    if words == "expanded":
        return Layout(shape, (0,) * len(shape), "before")
    return Layout(shape, plain.strides, "before", 1) if words == "shifted" else plain


def _at(place: Any, value: float) -> Fill:
    def fill(values: Array) -> None:
        values[place] = value

    return fill


def _same(values: Array) -> None:
    values[...] = values.flat[0]


def _raised(by: float) -> Fill:
    def fill(values: Array) -> None:
        values += by

    return fill


PLAIN = Input()
STRUCK: Mapping[str, Input] = {
    "two-vector-leftover": Input((2, 25)),
    "trailing-warp": Input((2, 129)),
    "column-stride": Input(layouts={"x": "transposed"}),
    "pointer-not-aligned": Input(layouts={"x": "shifted"}),
    "half-squares": Input(fills={"x": _at((3, 2), 8192.0)}),
    "eps-outside": Input(parameters={"eps": 10.0}),
    "many-rows": Input((65536, 1)),
    "one-pitch": Input(layouts={"residual": "pitched"}),
    "overflowing-squares": Input(fills={"x": _at((3, 2), 1e20)}),
    "negative-zero": Input(fills={"x": _at((3, 2), -0.0)}),
    "weight-of-zero": Input(fills={"weight": _at(5, 0.0)}),
    "offset-twice": Input(parameters={"weight_offset": 1.0}),
    "big-row-arm": Input((72, 16)),
    "padded-lanes": Input((8, 12)),
    "mean-and-spread": Input(fills={"x": _raised(1000.0)}),
    "constant-row": Input(fills={"x": _same}),
    "eps-in-half": Input(parameters={"eps": 1e-8}),
    "rows-of-first-axis": Input((2, 4, 16)),
    "last-partial-group": Input((9, 16)),
    "square": Input((8, 8)),
    "shared-memory-variant": Input((8, 513)),
    "rows-over-programs": Input((9, 16)),
    "masked-first-block": Input((8, 64), fills={"x": _at((3, slice(32)), -np.inf)}),
    "finite-sentinel": Input(fills={"x": _raised(-20000.0)}),
    "long-row": Input((1, 8193)),
    "nan-dropped": Input((8, 128), fills={"x": _at((3, 100), np.nan)}),
    "halves-far-apart": Input(fills={"x": _at((3, 2), 100.0)}),
    "expanded-gradient": Input(layouts={"dy": "expanded"}, fills={"dy": _same}),
    "probability-near-one": Input(fills={"y": _at((3, 2), 0.0)}),
    "tiny-range": Input(fills={"dy": _at((3, 2), 1e-40)}),
    "wide-grid": Input((24, 1024)),
    "tall-and-narrow": Input((48, 32)),
    "short-rows-in-blocks": Input((64, 4)),
    "scalar-fallback": Input((40, 18)),
    "long-row-one-over": Input((8, 1025)),
    "long-and-odd": Input((8, 513)),
    "single-row": Input((1, 64)),
    "both-tails": Input((7, 12)),
    "odd-by-odd": Input((7, 25)),
    "pitch-gap": Input((8, 512), layouts={"x": "pitched"}),
    "token-index": Input((2, 4, 16), layouts={"x": "pitched"}),
    "other-axis-tail": Input((6, 8), axis=0),
    "vectors-unaligned": Input(layouts={"x": "shifted"}),
    "expanded-and-odd": Input((8, 15), layouts={"dy": "expanded"}, fills={"dy": _same}),
    "residual-alone": Input(layouts={"residual": "pitched"}),
    "both-scattered": Input(layouts={"x": "transposed", "dy": "pitched"}),
    "stalled-sum": Input((1, 2049), "f16"),
    "one-row-in-brain": Input((1, 16), "bf16"),
    "half-vector": Input((8, 24), "bf16"),
    "odd-in-half": Input((8, 17), "f16"),
    "wide-weight": Input(dtype="f16", dtypes={"weight": "f32"}, layouts={"x": "pitched"}),
    "saved-output": Input(dtype="f16", layouts={"y": "transposed"}),
    "eps-vanishes": Input(dtype="f16", parameters={"eps": 1e-8}),
    "large-weight": Input(dtype="bf16", fills={"weight": _at(5, 15.8125)}),
    "padding-off-centre": Input((8, 12), fills={"x": _raised(100.0)}),
    "idle-lanes": Input(fills={"x": _raised(-20.0)}),
    "masked-padding": Input((8, 24), fills={"x": _at(3, -np.inf)}),
    "unguarded-root": Input(fills={"x": _at((3, 2), 1e-40)}, parameters={"eps": 0.0}),
    "tied-in-tail": Input((8, 12), fills={"y": _at((3, slice(2)), -0.25)}),
    "written-before-read": Input((8, 12), in_place={"dx": "dy"}),
}
"""An input that each bug strikes, after its rule."""

_POISON = 0xA5
PACK = load(CHECKOUT / "fuzz" / "quality" / "planted")


def _arrays(case: Case) -> dict[str, Array]:
    """Those that a kernel is given; outputs are all of one bit pattern before."""
    found = dict[str, Array]()
    for name, each in case.tensors.items():
        if isinstance(each, Output) and each.alias:
            found[name] = found[each.alias]
            continue
        dtype, layout = NUMPY_DTYPE[each.dtype], each.layout
        memory = np.full(layout.extent * dtype.itemsize + 192, _POISON, dtype=np.uint8)
        start = -memory.ctypes.data % 64 + layout.alignment(dtype.itemsize)
        flat = memory[start : start + layout.extent * dtype.itemsize].view(dtype)
        steps = [stride * dtype.itemsize for stride in layout.strides]
        found[name] = np.lib.stride_tricks.as_strided(flat, layout.shape, steps)
        if isinstance(each, Tensor):
            found[name][...] = np.frombuffer(each.bits, dtype).reshape(layout.shape)
    return found


def _outcome(case: Case, bug: str) -> Outcome:
    """What happens when the kernel is called with the case, as a worker tells it."""
    arrays = _arrays(case)
    try:
        planted(op=case.op, bug=bug, axis=int(case.params[AXIS]), **arrays, **_numbers(case))
    except RuntimeError as error:
        return Outcome(bug, Status.RAISED, detail=str(error))
    outputs = {name: arrays[name] for name in case.outputs}
    left = {name: (np.frombuffer(each.tobytes(), np.uint8).reshape(-1, each.itemsize) == _POISON).all(-1)
            for name, each in outputs.items()}  # fmt: skip
    unwritten = tuple(
        Unwritten(name, int(np.argmax(each)), int(each.sum())) for name, each in left.items() if each.any()
    )
    return Outcome(bug, Status.RAN, {name: array.tobytes() for name, array in outputs.items()}, unwritten=unwritten)


def _seen(case: Case) -> PlantedCall:
    """What the kernel finds that it is given."""
    return PlantedCall.of(case.op, _arrays(case), {**OPS[case.op].neutral, **_numbers(case)}, int(case.params[AXIS]))


def _numbers(case: Case) -> dict[str, float]:
    return {name: value for name, value in case.params.items() if name != AXIS}


def _verdict(case: Case, kernel: Kernel, bug: str) -> Verdict:
    return Judge(case).judge(_outcome(case, bug), kernel.contract).verdict


def test_thirty_have_one_condition_and_thirty_have_two() -> None:
    assert [len(bug.conditions) for bug in CONDITIONS] == [1] * 30
    assert [len(bug.conditions) for bug in PAIRS] == [2] * 30
    assert {*BUGS} == {*STRUCK}
    assert {bug.op for bug in CONDITIONS} == {bug.op for bug in PAIRS} == {*FORMULAS}


@pytest.mark.some(10)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_strikes_where_it_says(name: str) -> None:
    kernel, bug = PACK.kernel(name), BUGS[name]
    plain, case = PLAIN.case(kernel), STRUCK[name].case(kernel)
    assert (kernel.capability.refusal(plain), kernel.capability.refusal(case)) == (None, None)
    assert (fails(bug, plain), fails(bug, case)) == (False, True)
    assert _verdict(plain, kernel, name) is Verdict.PASS
    assert _verdict(case, kernel, name).is_finding
    assert _verdict(case, kernel, "") is Verdict.PASS


def test_a_case_is_what_the_kernel_sees_of_it() -> None:
    for name, example in STRUCK.items():
        case = example.case(PACK.kernel(name))
        of_case, of_arrays = call_of(case), _seen(case)
        assert (of_case.parameters, of_case.axis, of_case.in_place) == (
            of_arrays.parameters, of_arrays.axis, of_arrays.in_place,
        )  # fmt: skip
        for tensor, seen in of_case.seen.items():
            other = of_arrays.seen[tensor]
            assert (seen.dtype, seen.shape, seen.address) == (other.dtype, other.shape, other.address), (name, tensor)
            assert seen.steps == other.steps, (name, tensor)
            if tensor in case.inputs:
                np.testing.assert_array_equal(seen.values, other.values)
