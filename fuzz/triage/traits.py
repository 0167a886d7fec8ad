"""Traits: what may be said of a case, of its values and of where it runs, in the words in which a rule of failing is
stated."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from fuzz.adapters.target import Target
from fuzz.base.case import Case, Layout, Output, Tensor
from fuzz.base.draw import Frame
from fuzz.base.memory import distances, meets, shift
from fuzz.generate.layouts import layout_class
from fuzz.triage.rule import INVALID, VALID, Trait, Traits
from fuzz.triage.values import THERE, value_traits
from oracles.declared import AXIS
from oracles.dtypes import ITEMSIZE
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

MODULI = (2, 3, 4, 6, 8, 12, 16, 32, 48, 64, 96, 128, 256, 512, 1024)
ROW_MODULI = (2, 3, 4, 8, 16)
_DIM_MODULI = (2, 3, 4, 8, 16, 32, 64, 128)
ADDRESSES = (8, 16, 32, 64)
_SMALL_INDEX = 2**15 - 1


def traits_of(case: Case, target: Target, *, values: bool = True) -> Traits:
    """All traits of a case on a target; those of its values where they are wanted."""
    return {
        **case_traits(case, values=values),
        **dict(_lane_traits(_lengths(Frame(case)), target)),
        **dict(target.traits),
        **dict(_refused(case, target)),
    }


_REFUSED = re.compile(r"(\w+): (?:(dtype|rank|strides) .*|(axis) is .*|rows not (aligned) .*)|(n) = .*|(.*)")
"""The reasons for which a case is invalid: what of which tensor."""


def _refused(case: Case, target: Target) -> Iterator[tuple[str, Trait]]:
    """What a kernel that promises to reject invalid input must reject a case for."""
    capability = target.kernel.capability
    if capability.able.outside == "rejects" and capability.foreign(case) is None:
        reason = capability.invalid(case)
        found = _REFUSED.fullmatch(reason or VALID)
        assert found is not None, "any text fits"
        name, *said = found.groups()
        what = next(each for each in said if each)
        yield INVALID, f"{what} of {name}" if name else what


def case_traits(case: Case, *, values: bool = True) -> Traits:
    """Traits of the input alone."""
    frame = Frame(case)
    if not OPS[case.op].by_rows:
        traits: dict[str, Trait] = dict(_size_traits(frame))
    else:
        traits = {**dict(_extent_traits(frame.n, frame.outer)), **dict(_axis_traits(frame))}
    traits["axis"] = "last" if frame.axis == len(frame.grid) - 1 else "not last"
    for name, tensor in case.tensors.items():
        traits.update(_tensor_traits(name, tensor, frame))
    traits.update(_optional_traits(frame))
    traits.update(parameters_of(case))
    if values:
        traits.update(value_traits(case))
    return traits


def size_traits(n: int, outer: Sequence[int], target: Target) -> Traits:
    """Those traits that follow from the extents of the first input alone."""
    return {**dict(_extent_traits(n, outer)), **dict(_lane_traits({"n": n}, target))}


def _extent_traits(n: int, outer: Sequence[int]) -> Iterator[tuple[str, Trait]]:
    """Yield the traits of the grid: its extents, what is left of them over blocks, and how they compare."""
    rows = math.prod(outer)
    yield from (("n", n), ("rows", rows), ("rank", len(outer) + 1))
    yield from ((f"n mod {modulus}", n % modulus) for modulus in MODULI)
    yield from ((f"rows mod {modulus}", rows % modulus) for modulus in ROW_MODULI)
    for name, extent in (("n", n), ("rows", rows)):
        yield f"{name} is a power of two", _yes(extent.bit_count() == 1)
    # Blocks of Triton are powers of two: by this many elements such kernels divide rows among programs.
    yield IN_BLOCKS, rows * (1 << max(n - 1, 0).bit_length())
    yield from (("n = rows", _yes(n == rows)), ("n > rows", _yes(n > rows)), ("n < rows", _yes(n < rows)))
    if len(outer) > 1:
        yield "rows > extent 0 of the rows", _yes(rows > outer[0])
        for place, extent in enumerate(outer):
            name = f"extent {place} of the rows"
            yield from ((name, extent), (f"{name} = n", _yes(extent == n)))


def _axis_traits(frame: Frame) -> Iterator[tuple[str, Trait]]:
    """Yield the traits of a row op's axis: whether it is the first, how many elements of the grid lie between
    neighbours of a row, were it dense, and whether the last axis, where that is another one, is as long: a kernel may
    take one for the other."""
    yield "axis is the first", _yes(frame.axis == 0)
    if frame.axis < len(frame.grid) - 1:
        yield "extent of the last axis = n", _yes(frame.grid[-1] == frame.n)
    yield "extents after the axis", math.prod(frame.grid[frame.axis + 1 :])


def _size_traits(frame: Frame) -> Iterator[tuple[str, Trait]]:
    """Yield the traits of an op that is not a row op: its extents by their names, what is left of them over blocks, how
    they compare."""
    op, sizes = OPS[frame.case.op], frame.sizes
    for dim in op.named:
        if dim in sizes:
            yield from _extent(dim, sizes[dim], MODULI if dim == op.row else _DIM_MODULI)
    for (one, a), (other, b) in combinations(((dim, sizes[dim]) for dim in op.named if dim in sizes), 2):
        yield from (
            (f"{one} = {other}", _yes(a == b)),
            (f"{one} > {other}", _yes(a > b)),
            (f"{one} < {other}", _yes(a < b)),
        )
    if OUTER in op.inputs[0].axes:
        outer = frame.grid[: len(frame.grid) - len(op.inner)]
        yield from ((BATCH, math.prod(outer)), ("rank", len(frame.grid)))


def _extent(name: str, size: int, moduli: tuple[int, ...]) -> Iterator[tuple[str, Trait]]:
    yield name, size
    yield from ((f"{name} mod {modulus}", size % modulus) for modulus in moduli)
    yield f"{name} is a power of two", _yes(size.bit_count() == 1)


BATCH = "batch"
"""How many elements the dimensions have that have no names, of an op that is not a row op."""
IN_BLOCKS = "rows * next_power_of_2(n)"
"""How many elements rows have in blocks that are powers of two."""


def varied_sizes(op: Op) -> tuple[str, ...]:
    """The sizes of which probing an input changes each."""
    return ("n", "rows") if op.by_rows else (*op.named, *([BATCH] if OUTER in op.inputs[0].axes else []))


def length_of(op: Op) -> str:
    """The trait that is the length of rows."""
    return "n" if op.by_rows else op.row


def parameters_of(case: Case) -> Iterator[tuple[str, float]]:
    """By name; where a case does without one, what that means."""
    for each in OPS[case.op].parameters:
        value = case.params.get(each.name, each.neutral)
        if value is not None:
            yield each.name, float(value)


def _lengths(frame: Frame) -> Mapping[str, int]:
    """What vectors may lie along."""
    return {"n": frame.n} if OPS[frame.case.op].by_rows else frame.sizes


def _lane_traits(lengths: Mapping[str, int], target: Target) -> Iterator[tuple[str, Trait]]:
    lanes = target.lanes
    if lanes is not None:
        for name, size in lengths.items():
            yield f"{name} mod lanes", size % lanes
            yield f"{name} / lanes", size // lanes
            yield f"{name} mod 4 lanes", size % (4 * lanes)


def _tensor_traits(name: str, tensor: Tensor | Output, frame: Frame) -> Iterator[tuple[str, Trait]]:
    main = OPS[frame.case.op].main
    first = frame.case.inputs[main]
    yield f"dtype of {name}", tensor.dtype
    if isinstance(tensor, Output) and tensor.alias and tensor.layout == frame.case.inputs[tensor.alias].layout:
        # It is exactly in place, so that this is said of the input already; but not of two others.
        yield from _stride_traits(name, tensor.layout, frame) if tensor.alias != main else ()
        return
    if name != main:
        yield f"dtype of {name} and that of {main}", _word(tensor.dtype == first.dtype, "same", "differ")
    if isinstance(tensor, Tensor):
        reached = zip(tensor.layout.shape, tensor.layout.strides, strict=True)
        yield f"a stride of 0 in {name}", _yes(any(extent > 1 and not stride for extent, stride in reached))
    if not OPS[frame.case.op].has_rows(name):
        yield f"step of {name}", _step(tensor.layout, -1)
    else:
        axis = frame.axis if frame.role(name) == "grid" else len(tensor.layout.shape) - 1
        yield from _layout_traits(name, tensor.layout, frame, axis)
        yield f"layout of {name}", layout_class(tensor.layout, axis)
        itemsize = ITEMSIZE[tensor.dtype]
        address = tensor.layout.alignment(itemsize)
        yield from ((f"address of {name} mod {modulus}", address % modulus) for modulus in ADDRESSES)
        starts = math.gcd(address, *(stride * itemsize for stride in _between_rows(tensor.layout, axis)))
        yield from ((f"each row of {name} at a multiple of {m}", _yes(starts % m == 0)) for m in ADDRESSES)


def _optional_traits(frame: Frame) -> Iterator[tuple[str, Trait]]:
    case = frame.case
    for operand in OPS[case.op].operands:
        if operand.optional:
            yield operand.name, THERE if operand.name in case.tensors else "absent"
    yield from _memory_traits(frame)


def _memory_traits(frame: Frame) -> Iterator[tuple[str, Trait]]:
    """What tensors have in common: an output with an input, an input with the first one; and the rows of a stack."""
    case = frame.case
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
                for what, after in zip(("element", "row"), distances(under, over, frame.axis), strict=True):
                    yield f"{output} over a later {what} of {source}", _yes((after > 0).any())
                    yield f"{output} over an earlier {what} of {source}", _yes((after < 0).any())
    for source in dict.fromkeys(source for _, source in op.aliases if source in case.inputs):
        is_under = any(how == "overlap" for (_, each), how in meetings.items() if each == source)
        yield f"span of an output over that of {source} in part", _yes(is_under)
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


def _layout_traits(name: str, layout: Layout, frame: Frame, axis: int) -> Iterator[tuple[str, Trait]]:
    steps = [(extent, stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    yield f"step of {name}", _step(layout, axis)
    if rows := _between_rows(layout, axis):
        yield f"rows of {name}", _word(min(map(abs, rows)) == layout.shape[axis], "one after the other", "apart")
    furthest = sum(abs(stride) * (extent - 1) for extent, stride in steps)
    # Where an index of 16 bits would do, the distance is no reason for anything.
    yield f"furthest element of {name}", max(furthest, _SMALL_INDEX)
    yield from _stride_traits(name, layout, frame)


def _between_rows(layout: Layout, axis: int) -> list[int]:
    """The strides from row to row."""
    return [stride for at, stride in enumerate(layout.strides) if at != axis and layout.shape[at] > 1]


def _stride_traits(name: str, layout: Layout, frame: Frame) -> Iterator[tuple[str, Trait]]:
    main = OPS[frame.case.op].main
    if name != main and frame.role(name) == "grid":
        own, theirs = (
            [stride for extent, stride in zip(each.shape, each.strides, strict=True) if extent > 1]
            for each in (layout, frame.case.inputs[main].layout)
        )
        yield f"strides of {name} and those of {main}", _word(own == theirs, "same", "differ")


def _step(layout: Layout, axis: int) -> str:
    """As a word: steps are told apart, not compared."""
    return str(layout.strides[axis]) if layout.shape and layout.shape[axis] > 1 else "1"


def _word(what: bool | np.bool_, yes: str, no: str) -> str:
    return yes if what else no


def _yes(what: bool | np.bool_) -> str:
    return "yes" if what else "no"
