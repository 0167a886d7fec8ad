"""Traits: what may be said of a case, of its values and of where it runs, in the words in which a rule of failing is
stated."""

from __future__ import annotations

import math
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
    if values:
        traits.update(value_traits(case, frame))
    elif "eps" in case.params:
        traits["eps"] = float(case.params["eps"])
    return traits


def _lane_traits(n: int, target: Target) -> Iterator[tuple[str, Trait]]:
    if target.vector_bits is not None:
        lanes = target.vector_bits // _LANE_BITS
        yield "n mod lanes", n % lanes
        yield "n / lanes", n // lanes
        yield "n mod 4 lanes", n % (4 * lanes)


def _tensor_traits(name: str, tensor: Tensor | Output, frame: Frame) -> Iterator[tuple[str, Trait]]:
    x = frame.case.inputs["x"]
    yield f"dtype of {name}", tensor.dtype
    if isinstance(tensor, Output) and tensor.alias is not None:
        return
    if name != "x":
        yield f"dtype of {name} and that of x", _word(tensor.dtype == x.dtype, "same", "differ")
    if frame.role(name) != "grid":
        yield f"step of {name}", _step(tensor.layout, -1)
    else:
        yield from _layout_traits(name, tensor.layout, frame, x.layout)
        yield f"layout of {name}", layout_class(tensor.layout, frame.axis)
        address = tensor.layout.alignment(ITEMSIZE[tensor.dtype])
        yield from ((f"address of {name} mod {modulus}", address % modulus) for modulus in _ADDRESSES)


def _optional_traits(case: Case) -> Iterator[tuple[str, Trait]]:
    for operand in OPS[case.op].operands:
        if operand.optional:
            yield operand.name, "there" if operand.name in case.tensors else "absent"
    yield from _memory_traits(case)
    if "offset" in case.params:
        yield "weight offset", float(case.params["offset"])


def _memory_traits(case: Case) -> Iterator[tuple[str, Trait]]:
    """What tensors have in common: an output with an input, an input with x; and the rows of a stack of weights."""
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
        if operand.name in case.inputs and op.role(operand.name) == "grid" and operand.name != "x":
            yield f"{operand.name} is x", _yes(case.inputs[operand.name].alias == "x")
        if operand.name in case.inputs and operand.stackable:
            shape = case.inputs[operand.name].layout.shape
            yield f"rank of {operand.name}", str(len(shape))
            yield f"rows of {operand.name}", shape[0] if len(shape) == 2 else 1


def _is_backwards(layout: Layout, case: Case) -> bool:
    axis = int(case.params["axis"])
    steps = [stride for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    return layout.strides[axis] < 0 if layout.shape[axis] > 1 else bool(steps) and steps[0] < 0


def _layout_traits(name: str, layout: Layout, frame: Frame, x: Layout) -> Iterator[tuple[str, Trait]]:
    steps = [(extent, stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    yield f"step of {name}", _step(layout, frame.axis)
    rows = [stride for axis, stride in enumerate(layout.strides) if axis != frame.axis and layout.shape[axis] > 1]
    if rows:
        yield f"rows of {name}", _word(min(map(abs, rows)) == frame.n, "one after the other", "apart")
    furthest = sum(abs(stride) * (extent - 1) for extent, stride in steps)
    # Where an index of 16 bits would do, the distance is no reason for anything.
    yield f"furthest element of {name}", furthest if furthest > _SMALL_INDEX else 0
    if name != "x":
        theirs = [stride for extent, stride in zip(x.shape, x.strides, strict=True) if extent > 1]
        yield f"strides of {name} and those of x", _word([stride for _, stride in steps] == theirs, "same", "differ")


def _step(layout: Layout, axis: int) -> str:
    """As a word: steps are told apart, not compared."""
    return str(layout.strides[axis]) if layout.shape and layout.shape[axis] > 1 else "1"


def _word(what: bool | np.bool_, yes: str, no: str) -> str:
    return yes if what else no


def twin_traits(case: Case, twin: Case) -> Traits:
    """What a law changes: where each of the two is at an aligned address, and the twin's traits that are its own."""
    own, other = case_traits(case, values=False), case_traits(twin, values=False)
    traits: dict[str, Trait] = {}
    for name in ("x", *case.outputs):
        for modulus in _ADDRESSES:
            trait = f"address of {name} mod {modulus}"
            if trait in own and trait in other:
                both = own[trait] == 0, other[trait] == 0
                traits[f"{name} at a multiple of {modulus}"] = _SIDES[both]
    for trait in ("rows", "eps", *(t for t in own if t.startswith("layout of ") or " in place of " in t)):
        if trait in other:
            traits[f"the twin's {trait}"] = other[trait]
    return traits


_SIDES = {(True, True): "both", (False, False): "neither", (True, False): "one side", (False, True): "one side"}


_PRECISION: Mapping[str, int] = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
"""The bits of the mantissa by dtype, the implicit one included."""
_NEVER, _ALWAYS = -999, 999
"""The powers of two that stand for 0 and for infinity."""
_LARGEST_SQUARE = float(np.finfo(np.float32).max)


_ABOUT_VALUES = (
    "a NaN", "an infinity", "a zero row", "an ordinary row", "a subnormal", "a sum of squares beyond f32",
    "log2 of the mean square", "log2 of eps in ulp of the mean square", "eps",
)  # fmt: skip


def is_about_values(trait: str) -> bool:
    """True for traits that hide a failure more often than they cause one: a huge eps, a row of zeros."""
    return trait in _ABOUT_VALUES


def value_traits(case: Case, frame: Frame) -> Iterator[tuple[str, Trait]]:
    """Of x first, then of the weight."""
    rows = _rows(case, "x", frame)
    finite = np.where(np.isfinite(rows), rows, 0.0)
    zero, whole = (rows == 0).all(axis=-1), np.isfinite(rows).all(axis=-1)
    yield "a NaN", _yes(np.isnan(rows).any())
    yield "an infinity", _yes(np.isinf(rows).any())
    yield "a zero row", _yes(zero.any())
    yield "an ordinary row", _yes((whole & ~zero).any())
    small = SMALLEST_NORMAL[case.inputs["x"].dtype]
    yield "a subnormal", _yes(((finite != 0) & (np.abs(finite) < small)).any())
    with np.errstate(over="ignore"):  # float64 kernels have squares beyond its range
        squares = np.square(finite)
        means = squares.mean(axis=-1)
        yield "a sum of squares beyond f32", _yes((squares.sum(axis=-1) > _LARGEST_SQUARE).any())
    largest = float(means.max())
    if largest > 0 and math.isfinite(largest):
        yield "log2 of the mean square", round(math.log2(largest))
    yield from _eps_traits(case, means[whole])
    for name in ("weight", "dy", "residual"):
        if name in case.inputs:
            values = _rows(case, name, frame)
            yield f"{name} of ones", _yes((values == 1).all())


def _eps_traits(case: Case, means: Reals) -> Iterator[tuple[str, Trait]]:
    """eps against the mean square of the row where it matters most, in units that the output can show."""
    eps = float(case.params.get("eps", 0.0))
    yield "eps", eps
    if not means.size:
        return
    smallest = float(means.min())
    output = next(iter(case.outputs.values()))
    ulp = 2.0 ** -_PRECISION[output.dtype]
    rounded = float(quantise(np.array([eps]), case.inputs["x"].dtype).astype(np.float64)[0])
    yield "log2 of eps in ulp of the mean square", _log2(eps, smallest * ulp)
    yield "log2 of the change of eps in the dtype of x in ulp", _log2(abs(rounded - eps), (smallest + eps) * ulp)


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
