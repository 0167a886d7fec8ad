"""Traits: what may be said of a case, of its values and of where it runs, in the words in which a rule of failing is
stated."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

import numpy as np

from fuzz.adapters.target import Target
from fuzz.base.case import ITEMSIZE, Case, Layout, Output, Tensor
from fuzz.base.draw import Frame
from fuzz.base.dtypes import SMALLEST_NORMAL, from_bits, quantise
from fuzz.base.memory import meets, shift
from fuzz.base.stream import Reals
from fuzz.generate.layouts import layout_class
from fuzz.triage.rule import Trait, Traits
from oracles.op import AXIS, Parameter
from oracles.ops import OPS

MODULI = (2, 3, 4, 6, 8, 12, 16, 32, 48, 64, 96, 128, 256)
_ADDRESSES = (8, 16, 32, 64)
_SMALL_INDEX = 2**15 - 1
_LANE_BITS = 32
"""Kernels compute in float32, whatever they store."""


def traits_of(case: Case, target: Target, *, values: bool = True) -> Traits:
    """All traits of a case on a target; those of its values where they are wanted."""
    return {**case_traits(case, values=values), **dict(_lane_traits(Frame(case).n, target)), **dict(target.traits)}


def case_traits(case: Case, *, values: bool = True) -> Traits:
    """Traits of the input alone."""
    frame = Frame(case)
    traits: dict[str, Trait] = {"n": frame.n, "rows": math.prod(frame.outer), "rank": len(frame.grid)}
    traits.update({f"n mod {modulus}": frame.n % modulus for modulus in MODULI})
    traits["axis"] = "last" if frame.axis == len(frame.grid) - 1 else "not last"
    for name, tensor in case.tensors.items():
        traits.update(_tensor_traits(name, tensor, frame))
    traits.update(_optional_traits(case))
    traits.update(_parameters(case))
    if values:
        traits.update(value_traits(case, frame))
    return traits


def _parameters(case: Case) -> Iterator[tuple[str, float]]:
    """By name; where a case does without one, what that means."""
    for each in OPS[case.op].parameters:
        value = case.params.get(each.name, each.neutral)
        if value is not None:
            yield each.name, float(value)


def _lane_traits(n: int, target: Target) -> Iterator[tuple[str, Trait]]:
    if target.vector_bits is not None:
        lanes = target.vector_bits // _LANE_BITS
        yield "n mod lanes", n % lanes
        yield "n / lanes", n // lanes
        yield "n mod 4 lanes", n % (4 * lanes)


def _tensor_traits(name: str, tensor: Tensor | Output, frame: Frame) -> Iterator[tuple[str, Trait]]:
    main = OPS[frame.case.op].main
    first = frame.case.inputs[main]
    yield f"dtype of {name}", tensor.dtype
    if isinstance(tensor, Output) and tensor.alias is not None:
        return
    if name != main:
        yield f"dtype of {name} and that of {main}", _word(tensor.dtype == first.dtype, "same", "differ")
    if frame.role(name) != "grid":
        yield f"step of {name}", _step(tensor.layout, -1)
    else:
        yield from _layout_traits(name, tensor.layout, frame)
        yield f"layout of {name}", layout_class(tensor.layout, frame.axis)
        address = tensor.layout.alignment(ITEMSIZE[tensor.dtype])
        yield from ((f"address of {name} mod {modulus}", address % modulus) for modulus in _ADDRESSES)


def _optional_traits(case: Case) -> Iterator[tuple[str, Trait]]:
    for operand in OPS[case.op].operands:
        if operand.optional:
            yield operand.name, "there" if operand.name in case.tensors else "absent"
    yield from _memory_traits(case)


def _memory_traits(case: Case) -> Iterator[tuple[str, Trait]]:
    """What tensors have in common: an output with an input, an input with the first one; and the rows of a stack."""
    op, meetings = OPS[case.op], {(output, source): how for output, source, how in case.meetings()}
    for output, source in op.aliases:
        if output in case.outputs and source in case.inputs:
            over, under = case.outputs[output].layout, case.inputs[source].layout
            how = meetings.get((output, source), "apart")
            part = how == "overlap" and meets(under, over)
            yield f"{output} in place of {source}", _yes(how == "same")
            yield f"{output} over {source} in part", _yes(part)
            if part:
                # In the direction in which the elements of a row follow each other.
                yield f"shift of {output} over {source}", shift(under, over) * (-1 if _is_backwards(under, case) else 1)
    for operand in op.inputs:
        if operand.name in case.inputs and op.role(operand.name) == "grid" and operand.name != op.main:
            yield f"{operand.name} is {op.main}", _yes(case.inputs[operand.name].alias == op.main)
        if operand.name in case.inputs and operand.stackable:
            shape = case.inputs[operand.name].layout.shape
            yield f"rank of {operand.name}", str(len(shape))
            yield f"rows of {operand.name}", shape[0] if len(shape) == 2 else 1


def _is_backwards(layout: Layout, case: Case) -> bool:
    axis = int(case.params[AXIS])
    steps = [stride for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    return layout.strides[axis] < 0 if layout.shape[axis] > 1 else bool(steps) and steps[0] < 0


def _layout_traits(name: str, layout: Layout, frame: Frame) -> Iterator[tuple[str, Trait]]:
    steps = [(extent, stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    yield f"step of {name}", _step(layout, frame.axis)
    rows = [stride for axis, stride in enumerate(layout.strides) if axis != frame.axis and layout.shape[axis] > 1]
    if rows:
        yield f"rows of {name}", _word(min(map(abs, rows)) == frame.n, "one after the other", "apart")
    furthest = sum(abs(stride) * (extent - 1) for extent, stride in steps)
    # Where an index of 16 bits would do, the distance is no reason for anything.
    yield f"furthest element of {name}", furthest if furthest > _SMALL_INDEX else 0
    main = OPS[frame.case.op].main
    if name != main:
        first = frame.case.inputs[main].layout
        theirs = [stride for extent, stride in zip(first.shape, first.strides, strict=True) if extent > 1]
        same = [stride for _, stride in steps] == theirs
        yield f"strides of {name} and those of {main}", _word(same, "same", "differ")


def _step(layout: Layout, axis: int) -> str:
    """As a word: steps are told apart, not compared."""
    return str(layout.strides[axis]) if layout.shape and layout.shape[axis] > 1 else "1"


def _word(what: bool | np.bool_, yes: str, no: str) -> str:
    return yes if what else no


def twin_traits(case: Case, twin: Case) -> Traits:
    """What a law changes: where each of the two is at an aligned address, and the twin's traits that are its own."""
    own, other = case_traits(case, values=False), case_traits(twin, values=False)
    traits: dict[str, Trait] = {}
    for name in (OPS[case.op].main, *case.outputs):
        for modulus in _ADDRESSES:
            trait = f"address of {name} mod {modulus}"
            if trait in own and trait in other:
                both = own[trait] == 0, other[trait] == 0
                traits[f"{name} at a multiple of {modulus}"] = _SIDES[both]
    memory = (trait for trait in own if trait.startswith("layout of ") or " in place of " in trait)
    for trait in ("rows", *dict(_parameters(case)), *memory):
        if trait in other:
            traits[f"the twin's {trait}"] = other[trait]
    return traits


_SIDES = {(True, True): "both", (False, False): "neither", (True, False): "one side", (False, True): "one side"}


_PRECISION: Mapping[str, int] = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
"""The bits of the mantissa by dtype, the implicit one included."""
_NEVER, _ALWAYS = -999, 999
"""The powers of two that stand for 0 and for infinity."""
_LARGEST_SQUARE = float(np.finfo(np.float32).max)


_ABOUT_VALUES = re.compile(
    r"(a NaN|an infinity|a zero row|an ordinary row|a subnormal) in \w+|a sum of squares beyond f32|"
    r"log2 of the mean square|log2 of \w+ in ulp of the .*mean square"
)


def is_about_values(trait: str) -> bool:
    """True for traits that hide a failure more often than they cause one: a huge eps, a row of zeros."""
    return bool(_ABOUT_VALUES.fullmatch(trait)) or any(
        each.name == trait and each.power for op in OPS.values() for each in op.parameters
    )


def value_traits(case: Case, frame: Frame) -> Iterator[tuple[str, Trait]]:
    """Of the first input, then of the others."""
    main = OPS[case.op].main
    rows = _rows(case, main, frame)
    finite = np.where(np.isfinite(rows), rows, 0.0)
    zero, whole = (rows == 0).all(axis=-1), np.isfinite(rows).all(axis=-1)
    yield f"a NaN in {main}", _yes(np.isnan(rows).any())
    yield f"an infinity in {main}", _yes(np.isinf(rows).any())
    yield f"a zero row in {main}", _yes(zero.any())
    yield f"an ordinary row in {main}", _yes((whole & ~zero).any())
    small = SMALLEST_NORMAL[case.inputs[main].dtype]
    yield f"a subnormal in {main}", _yes(((finite != 0) & (np.abs(finite) < small)).any())
    with np.errstate(over="ignore"):  # float64 kernels have squares beyond its range
        squares = np.square(finite)
        means = squares.mean(axis=-1)
        yield "a sum of squares beyond f32", _yes((squares.sum(axis=-1) > _LARGEST_SQUARE).any())
    largest = float(means.max())
    if largest > 0 and math.isfinite(largest):
        yield "log2 of the mean square", round(math.log2(largest))
    if whole.any():
        for parameter in OPS[case.op].parameters:
            yield from _scale_traits(case, parameter, float(means[whole].min()))
    for name in case.inputs:
        if name != main:
            yield f"{name} of ones", _yes((_rows(case, name, frame) == 1).all())


_MEANS = {1: "the root mean square", 2: "the mean square"}
"""What of a row a parameter is compared with, by the power of the scale that it goes with."""


def _scale_traits(case: Case, parameter: Parameter, smallest: float) -> Iterator[tuple[str, Trait]]:
    """A parameter against the row where it matters most, that of the smallest mean square, in units that the output
    can show."""
    if parameter.power not in _MEANS or parameter.name not in case.params:
        return
    name, mean, level = parameter.name, _MEANS[parameter.power], smallest ** (parameter.power / 2)
    value = float(case.params[name])
    output = next(iter(case.outputs.values()))
    ulp = 2.0 ** -_PRECISION[output.dtype]
    main = OPS[case.op].main
    rounded = float(quantise(np.array([value]), case.inputs[main].dtype).astype(np.float64)[0])
    change, whole = abs(rounded - value), level + abs(value)
    yield f"log2 of {name} in ulp of {mean}", _log2(abs(value), level * ulp)
    yield f"log2 of the change of {name} in the dtype of {main} in ulp of {mean}", _log2(change, whole * ulp)


def _log2(part: float, whole: float) -> int:
    if part == 0:
        return _NEVER
    return math.floor(math.log2(part / whole)) if whole > 0 and part / whole < math.inf else _ALWAYS


def _rows(case: Case, name: str, frame: Frame) -> Reals:
    """Values of an input, a row of it in each row."""
    tensor = case.inputs[name]
    with np.errstate(invalid="ignore"):
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)
    if frame.role(name) != "grid":
        return values.reshape(1, -1)
    return np.moveaxis(values, frame.axis, -1).reshape(-1, frame.n) if values.size else np.zeros((1, 1))


def _yes(what: bool | np.bool_) -> str:
    return "yes" if what else "no"
