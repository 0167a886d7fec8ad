"""Storage: changes to where a draw's tensors lie in memory, for probes: other layouts, addresses, shared memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fuzz.core.base.case import Guard
from fuzz.core.base.draw import Draw, Placement, Shift
from fuzz.core.generate.layouts import OVERLAPPING
from fuzz.core.generate.realise import layout_of
from oracles.ops import OPS

Memory = Mapping[str, tuple[str, Shift | None, bool]]
"""For each output in the memory of an input, by name: the input, the distance from it (None for exactly in place), and
whether the output lies in C order without gaps."""


def grids(draw: Draw) -> list[str]:
    """Return the names of tensors that have rows of their own."""
    return [part.name for part in draw.parts if OPS[draw.op].has_rows(part.name)]


def laid_out(draw: Draw, layouts: Mapping[str, str]) -> Draw:
    """Return the draw with some tensors of the first input's shape in other layout classes."""
    return draw.with_parts(
        *(
            replace(part, placement=replace(part.placement, layout=allowed(draw, part.name, layouts[part.name])))
            for part in draw.parts
            if part.name in layouts
        )
    )


def allowed(draw: Draw, name: str, layout: str) -> str:
    """Return the layout class, or 'contiguous' if elements would share memory and the tensor is an output."""
    return "contiguous" if layout in OVERLAPPING and not OPS[draw.op].is_input(name) else layout


def placed_at(draw: Draw, guard: Guard, offset: int, names: Collection[str] = ()) -> Draw:
    """Return the draw with some tensors, or all, at this side and offset of their guard page."""
    return draw.with_parts(
        *(
            replace(part, placement=replace(part.placement, guard=guard, offset=offset))
            for part in draw.parts
            if not names or part.name in names
        )
    )


def stepped(draw: Draw, steps: Mapping[str, int]) -> Draw:
    """Return the draw with these distances between elements of tensors that are one column or row. Tensors without an
    entry get distance 1."""
    own = grids(draw)
    return draw.with_parts(
        *(
            replace(part, placement=replace(part.placement, step=steps.get(part.name, 1)))
            for part in draw.parts
            if part.name not in own
        )
    )


def steps_of(draw: Draw) -> dict[str, int]:
    """Return the distances between elements that differ from 1, by tensor."""
    return {part.name: part.placement.step for part in draw.parts if part.placement.step != 1}


def unfolded(draw: Draw) -> Draw:
    """Return the draw with memory for each element of every input. Equal values in shared memory may hide a failure."""
    folded = [
        part
        for part in draw.parts
        if part.alias is None and OPS[draw.op].is_input(part.name) and 0 in layout_of(draw, part).strides
    ]
    plain = (Placement(guard=each.placement.guard, offset=each.placement.offset) for each in folded)
    return draw.with_parts(*(replace(p, placement=at) for p, at in zip(folded, plain, strict=True)))


def sharing(draw: Draw, names: Collection[str]) -> Draw:
    """Return the draw in which exactly these inputs are the same memory as the first one. If there are any, rounding
    errors do not count as random, since equal rows round alike."""
    main = OPS[draw.op].main
    changed = [replace(part, alias=main if part.name in names else None) for part in draw.parts if part.given]
    return replace(draw.with_parts(*changed), structured=draw.structured or bool(names))


def shared_of(draw: Draw) -> frozenset[str]:
    """Return the inputs that share the first one's memory."""
    return frozenset(part.name for part in draw.parts if part.given and part.alias is not None)


def stacked(draw: Draw, stacks: Mapping[str, str]) -> Draw:
    """Return the draw in which exactly these weights have rank 2, with one row or with many."""
    return draw.with_parts(*(replace(part, stack=stacks.get(part.name, "")) for part in draw.parts if part.given))


def stacks_of(draw: Draw) -> dict[str, str]:
    """Return the stack of each tensor of rank 2, 'one' or 'many', by name."""
    return {part.name: part.stack for part in draw.parts if part.stack}


def in_memory(draw: Draw, memory: Memory) -> Draw:
    """Return the draw in which exactly these outputs lie in the memory of inputs."""
    changed = []
    for part in draw.parts:
        if not OPS[draw.op].is_input(part.name):
            source, shift, dense = memory.get(part.name, (None, None, False))
            changed.append(replace(part, alias=source, shift=shift, dense=dense))
    return draw.with_parts(*changed)


def memory_of(draw: Draw) -> Memory:
    """Return the outputs that lie in the memory of inputs."""
    outputs = (part for part in draw.parts if not OPS[draw.op].is_input(part.name))
    return {part.name: (part.alias, part.shift, part.dense) for part in outputs if part.alias is not None}


def is_apart(draw: Draw) -> bool:
    """Return whether every tensor has its own memory, or is an output exactly in place of an input."""
    return all(part.alias is None or (part.shift is None and part.given is None) for part in draw.parts)
