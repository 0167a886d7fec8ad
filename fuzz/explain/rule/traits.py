"""Traits: what is true of a case, of its values and of its target, or of a case and its twin, by feature. Rules of
failing are made of traits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import THREADS, Case, Layout, Output, Tensor
from fuzz.core.base.draw import Frame
from fuzz.core.base.feature import Feature
from fuzz.core.base.memory import distances, meets, shift
from fuzz.core.generate.layouts import layout_class
from fuzz.explain.rule.rule import THERE, VALID, Trait, Traits, word
from fuzz.explain.rule.values import change_of, value_traits
from oracles.dtypes import ITEMSIZE
from oracles.op import Extents, Op
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS

MODULI = (2, 3, 4, 6, 8, 12, 16, 32, 48, 64, 96, 128, 256, 512, 1024)
ROW_MODULI = (2, 3, 4, 8, 16)
_DIM_MODULI = (2, 3, 4, 8, 16, 32, 64, 128)
ADDRESSES = (8, 16, 32, 64)
_SMALL_INDEX = 2**15 - 1


def traits_of(case: Case, target: Target, *, values: bool = True) -> Traits:
    """Return all traits of a case on a target; those of its values only if `values` is true."""
    found = {
        **case_traits(case, values=values),
        **dict(_lane_traits(Frame(case).sizes, target)),
        **target_traits(target),
        **dict(_refused(case, target)),
    }
    able = target.kernel.able
    if able.strides == "contiguous" and able.outside != "rejects":
        # Strides then differ only along extents of 1, where they do not matter: their traits would only repeat the
        # extents.
        return {feature: value for feature, value in found.items() if feature.kind not in _OF_STRIDES}
    return found


_OF_STRIDES = frozenset(("strides", "step", "rows of", "layout", "stride of 0"))


def _refused(case: Case, target: Target) -> Iterator[tuple[Feature, Trait]]:
    """Yield the reason why a kernel that promises to reject invalid input must reject the case."""
    capability = target.kernel.capability
    if capability.able.rejects and capability.foreign(case) is None:
        found = capability.invalid(case)
        yield Feature("invalid"), VALID if found is None else found.what


def case_traits(case: Case, *, values: bool = True) -> Traits:
    """Return the traits of the case alone, whatever the target."""
    frame, op = Frame(case), OPS[case.op]
    traits: dict[Feature, Trait] = dict(_extent_traits(op, frame.sizes, frame.batch))
    traits |= dict(_axis_traits(frame)) if op.any_axis else {}
    traits[Feature("axis")] = "last" if frame.axis == len(frame.grid) - 1 else "not last"
    for name, tensor in case.tensors.items():
        traits.update(_tensor_traits(name, tensor, frame))
    optional = (each.name for each in op.operands if each.optional)
    traits |= {Feature("presence", name): word(name in case.tensors, THERE, "absent") for name in optional}
    traits.update(_memory_traits(frame))
    traits.update(parameters_of(case))
    traits[Feature("threads")] = word(case.params.get(THREADS, 1) > 1)
    if values:
        traits.update(value_traits(case))
    return traits


def size_traits(op: Op, sizes: Extents, batch: Sequence[int], target: Target) -> Traits:
    """Return the traits that follow from the extents alone."""
    return {**dict(_extent_traits(op, sizes, batch)), **dict(_lane_traits(sizes, target))}


def _extent_traits(op: Op, sizes: Extents, batch: Sequence[int]) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of extents: the extents, their remainders modulo blocks, and how they compare."""
    rows, moduli = math.prod(batch), {op.row: MODULI, op.batch_name: ROW_MODULI}
    extents = {dim: sizes[dim] for dim in op.named if dim in sizes}
    extents |= {op.batch_name: rows} if OUTER in op.inputs[0].axes else {}
    yield from ((Feature("extent", name), extent) for name, extent in extents.items())
    yield Feature("rank"), len(batch) + len(op.inner)
    for name, extent in extents.items():
        yield from ((Feature("remainder", name, operand=m), extent % m) for m in moduli.get(name, _DIM_MODULI))
    for name, extent in extents.items():
        yield Feature("power of two", name), word(extent.bit_count() == 1)
    if op.any_axis and op.row in sizes:
        # Blocks of Triton are powers of two: such kernels divide rows among programs by this number of elements.
        yield Feature("in blocks", op.batch_name, operand=op.row), rows * (1 << max(sizes[op.row] - 1, 0).bit_length())
    for (one, a), (other, b) in combinations(extents.items(), 2):
        first, second = (other, one) if other == op.batch_name else (one, other)
        yield Feature("product", first, operand=second), a * b
        if a and b:
            yield Feature("ratio", one, operand=other), a / b
        for relation, holds in (("=", a == b), (">", a > b), ("<", a < b)):
            yield Feature("compared", one, relation, other), word(holds)
    if batch and op.row in sizes:
        yield Feature("among the outer", op.row), word(sizes[op.row] in batch)
    if len(batch) > 1:
        yield Feature("beyond the first", op.batch_name), word(rows > batch[0])
        for place, extent in enumerate(batch):
            outer = Feature("outer extent", op.batch_name, operand=place)
            yield outer, extent
            yield Feature("compared", outer.text, "=", op.row), word(extent == sizes.get(op.row))


def _axis_traits(frame: Frame) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of the row's axis: whether it is the first, how far apart neighbours in a row are in a dense
    tensor, and whether the last axis, if it is another one, has the same extent, since a kernel may confuse the two."""
    yield Feature("axis is first"), word(frame.axis == 0)
    if frame.axis < len(frame.grid) - 1:
        yield (
            Feature("compared", "extent of the last axis", "=", OPS[frame.case.op].row),
            word(frame.grid[-1] == frame.n),
        )
    yield Feature("after the axis"), math.prod(frame.grid[frame.axis + 1 :])


def varied_sizes(op: Op) -> tuple[str, ...]:
    """Return the names of the extents that probing varies."""
    return *op.named, *([op.batch_name] if OUTER in op.inputs[0].axes else [])


def parameters_of(case: Case) -> Iterator[tuple[Feature, float]]:
    """Yield the value of each parameter; one that the case lacks has its neutral value."""
    for each in OPS[case.op].parameters:
        value = case.params.get(each.name, each.neutral)
        if value is not None:
            yield Feature("scale" if each.power else "parameter", each.name), float(value)


def _lane_traits(lengths: Mapping[str, int], target: Target) -> Iterator[tuple[Feature, Trait]]:
    lanes = target.lanes
    if lanes is not None:
        for name, size in lengths.items():
            yield Feature("remainder", name, operand="lanes"), size % lanes
            yield Feature("quotient", name, operand="lanes"), size // lanes
            yield Feature("remainder", name, operand="4 lanes"), size % (4 * lanes)


def target_traits(target: Target) -> Traits:
    """Return the traits of the target."""
    return {Feature("target", name): value for name, value in target.told}


def _tensor_traits(name: str, tensor: Tensor | Output, frame: Frame) -> Iterator[tuple[Feature, Trait]]:
    main = OPS[frame.case.op].main
    first = frame.case.inputs[main]
    yield Feature("dtype", name), tensor.dtype
    if isinstance(tensor, Output) and tensor.alias and tensor.layout == frame.case.inputs[tensor.alias].layout:
        # It is exactly in place: for the first input this repeats the input's traits, for others it does not.
        yield from _stride_traits(name, tensor.layout, frame) if tensor.alias != main else ()
        return
    if name != main:
        same = word(tensor.dtype == first.dtype, "same", "differ")
        yield Feature("dtype and that of", name, operand=main), same
    if isinstance(tensor, Tensor):
        reached = zip(tensor.layout.shape, tensor.layout.strides, strict=True)
        yield Feature("stride of 0", name), word(any(extent > 1 and not stride for extent, stride in reached))
    if not OPS[frame.case.op].has_rows(name):
        yield Feature("step", name), _step(tensor.layout, -1)
    else:
        axis = frame.axis if name in OPS[frame.case.op].alike else len(tensor.layout.shape) - 1
        yield from _layout_traits(name, tensor.layout, frame, axis)
        yield Feature("layout", name), layout_class(tensor.layout, axis)
        itemsize = ITEMSIZE[tensor.dtype]
        address = tensor.layout.alignment(itemsize)
        yield from ((Feature("address", name, operand=m), address % m) for m in ADDRESSES)
        starts = math.gcd(address, *(stride * itemsize for stride in _between_rows(tensor.layout, axis)))
        yield from ((Feature("address of rows", name, operand=m), word(starts % m == 0)) for m in ADDRESSES)


def _memory_traits(frame: Frame) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of shared memory: outputs that lie over inputs, inputs that share memory with the first one, and
    the rows of stacked weights."""
    case = frame.case
    op, meetings = OPS[case.op], {(output, source): how for output, source, how in case.meetings()}
    for output, source in op.aliases:
        if output in case.outputs and source in case.inputs:
            over, under = case.outputs[output].layout, case.inputs[source].layout
            how = meetings.get((output, source), "apart")
            part = how == "overlap" and meets(under, over)
            yield Feature("in place", output, operand=source), word(how == "same")
            yield Feature("in part", output, operand=source), word(part)
            if part:
                # Distances are counted in the direction in which the elements of a row follow each other.
                sign = -1 if _is_backwards(under, case) else 1
                yield Feature("shift", output, operand=source), shift(under, over) * sign
                for what, after in zip(("element", "row"), distances(under, over, frame.axis), strict=True):
                    yield Feature("over later", output, what, source), word((after > 0).any())
                    yield Feature("over earlier", output, what, source), word((after < 0).any())
    for source in dict.fromkeys(source for _, source in op.aliases if source in case.inputs):
        is_under = any(how == "overlap" for (_, each), how in meetings.items() if each == source)
        yield Feature("span", source), word(is_under)
    for operand in op.inputs:
        if operand.name in case.inputs and operand.name in op.alike and operand.name != op.main:
            is_one = word(case.inputs[operand.name].alias == op.main)
            yield Feature("one buffer", operand.name, operand=op.main), is_one
        if operand.name in case.inputs and operand.stackable:
            shape = case.inputs[operand.name].layout.shape
            yield Feature("rank of", operand.name), str(len(shape))
            yield Feature("rows of", operand.name), shape[0] if len(shape) == 2 else 1


def _is_backwards(layout: Layout, case: Case) -> bool:
    axis = int(case.params[AXIS])
    steps = [stride for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    return layout.strides[axis] < 0 if layout.shape[axis] > 1 else bool(steps) and steps[0] < 0


def _layout_traits(name: str, layout: Layout, frame: Frame, axis: int) -> Iterator[tuple[Feature, Trait]]:
    steps = [(extent, stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    yield Feature("step", name), _step(layout, axis)
    if rows := _between_rows(layout, axis):
        yield Feature("rows of", name), word(min(map(abs, rows)) == layout.shape[axis], "one after the other", "apart")
    furthest = sum(abs(stride) * (extent - 1) for extent, stride in steps)
    # A distance that fits an index of 16 bits is no cause of a failure.
    yield Feature("furthest", name), max(furthest, _SMALL_INDEX)
    yield from _stride_traits(name, layout, frame)


def _between_rows(layout: Layout, axis: int) -> list[int]:
    """Return the strides of all axes of more than one element, except the row's."""
    return [stride for at, stride in enumerate(layout.strides) if at != axis and layout.shape[at] > 1]


def _stride_traits(name: str, layout: Layout, frame: Frame) -> Iterator[tuple[Feature, Trait]]:
    main = OPS[frame.case.op].main
    if name != main and name in OPS[frame.case.op].alike:
        own, theirs = (
            [stride for extent, stride in zip(each.shape, each.strides, strict=True) if extent > 1]
            for each in (layout, frame.case.inputs[main].layout)
        )
        yield Feature("strides", name, operand=main), word(own == theirs, "same", "differ")


def _step(layout: Layout, axis: int) -> str:
    """Return a step as a word, since steps are only distinguished and not compared."""
    return str(layout.strides[axis]) if layout.shape and layout.shape[axis] > 1 else "1"


_SIDES = {(True, True): "both", (False, False): "neither", (True, False): "one side", (False, True): "one side"}


def twin_traits(case: Case, twin: Case) -> Traits:
    """Return the traits of what the law changes: which of the two lies at an aligned address, how the twin lies in
    memory, and the smaller and larger of their numbers. A limit lies between the two numbers if a kernel treats the two
    differently."""
    own, other = case_traits(case, values=False), case_traits(twin, values=False)
    main = OPS[case.op].main
    traits = dict(_places(case, own, other))
    for name in (each.name for each in OPS[case.op].parameters if each.power and each.name in case.params):
        same = change_of(case, name) == change_of(twin, name)
        traits[Feature("change of two", name, operand=main)] = word(same, "same", "differ")
    for trait in own:
        if trait in other and trait.kind in ("layout", "rows of", "in place"):
            traits[Feature("twin's", trait.text)] = other[trait]
            traits[Feature("as the twin's", trait.text)] = word(own[trait] == other[trait], "same", "differ")
    ours, theirs = (dict(_numbers(each)) for each in (case, twin))
    for name, modulus in (each for each in ours if each in theirs):  # their order decides which of two equals is stated
        both = ours[name, modulus], theirs[name, modulus]
        for which, number in (("smaller", min(both)), ("larger", max(both))):
            traits[Feature("remainder of two" if modulus else "of two", name, which, modulus)] = number
    return traits


def _places(case: Case, own: Traits, other: Traits) -> Iterator[tuple[Feature, Trait]]:
    for name in (OPS[case.op].main, *case.outputs):
        for modulus in ADDRESSES:
            trait = Feature("address", name, operand=modulus)
            if trait in own and trait in other:
                yield Feature("twin at", name, operand=modulus), _SIDES[own[trait] == 0, other[trait] == 0]


def _numbers(case: Case) -> Iterator[tuple[tuple[str, int | str], float]]:
    """Yield the numbers that laws change and kernels may depend on, parameters and counts of rows, by name and
    block."""
    yield from (((each.subject, ""), value) for each, value in parameters_of(case))
    op, frame = OPS[case.op], Frame(case)
    extents = {op.batch_name: math.prod(frame.batch), **({"the first extent": frame.batch[0]} if frame.batch else {})}
    extents |= {dim: size for dim, size in frame.sizes.items() if op.dimensions[dim].batched and dim != op.row}
    for name, extent in extents.items():
        yield (name, ""), extent
        yield from (((name, modulus), extent % modulus) for modulus in ROW_MODULI)
