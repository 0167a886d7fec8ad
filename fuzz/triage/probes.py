"""Probes: the cases around a failure, each with something changed, that show what failing depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fuzz.adapters.target import Target
from fuzz.base.case import ITEMSIZE, Guard
from fuzz.base.draw import EPS
from fuzz.base.op import OPS
from fuzz.base.stream import Stream
from fuzz.generate.layouts import LAYOUT_CLASSES
from fuzz.triage.blueprint import UNEVEN, VALUES, Blueprint, Shift

_SWEPT = 260
"""every n up to this is probed: twice each block of 128, and one of 256."""
_SWEPT_SLOWLY = 40
"""of a target that needs milliseconds for each case."""
_LONG_SLOWLY = (63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 257, 1023, 1024, 1025)
"""ends and beginnings of blocks: without them `n mod 64 = 63` would be taken for `n >= 63`."""
_LONG = (320, 383, 384, 385, 511, 512, 513, 575, 639, 640, 767, 768, 1023, 1024, 1025, 1087, 2047, 2048, 2049)
_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64)
_MIXED = 200
"""probes with several things changed at once."""

Memory = tuple[frozenset[tuple[str, str]], Mapping[str, tuple[str, Shift]]]
"""outputs exactly in place of inputs, and those that overlap one."""
_SHIFTS: tuple[Shift, ...] = ((1, 0), (-1, 0), (3, 0), (-3, 0), (0, 1), (0, -1))

_T = TypeVar("_T")


def swept(base: Blueprint, target: Target, *, few: bool = False) -> Iterator[Blueprint]:
    """Every row length, all else as it is."""
    lengths = range(1, (_SWEPT_SLOWLY if few or target.costly else _SWEPT) + 1)
    yield from (replace(base, n=n) for n in lengths)
    longer, most = (_LONG_SLOWLY, _SWEPT_SLOWLY) if target.costly else (_LONG, _SWEPT)
    yield from (replace(base, n=n) for n in (*longer, base.n + 1, base.n - 1, 2 * base.n) if n > most)


def changed(base: Blueprint, target: Target, *, law: bool = False) -> Iterator[Blueprint]:
    """One thing changed at a time, for the rows' number also two."""
    yield from (replace(base, rows=rows) for rows in _ROWS)
    yield from (replace(base, dtype=dtype) for dtype in target.kernel.capabilities.dtypes)
    for layout in LAYOUT_CLASSES:
        for rows in (base.rows, 3):
            yield replace(base, layouts=dict.fromkeys(base.layouts, layout), rows=rows)
        yield from (replace(base, layouts={**base.layouts, name: layout}, rows=3) for name in base.layouts)
    yield from (_placed(base, "before", place) for place in range(64 // ITEMSIZE[base.dtype]))
    yield _placed(base, "after", 0)
    yield from (replace(base, places={**base.places, name: ("after", 0)}) for name in base.places)
    yield from (replace(base, values=values, seed=seed) for values in VALUES for seed in (1, 2))
    for eps in EPS:
        yield from (replace(base, eps=eps, values=values) for values in (base.values, "tiny", "large"))
    for rows in (1, 3):
        yield from (_in_memory(replace(base, rows=rows), memory) for memory in _memories(base, target, law=law))
        yield from (replace(base, shared=shared, rows=rows) for shared in _shared(base, law=law))
        yield from (replace(base, stacks=stacks, rows=rows) for stacks in _stacks(base, target))
    yield from (replace(base, dropped=frozenset([name])) for name in _optional(base))
    yield from (replace(base, dtypes=dtypes) for dtypes in _dtypes(base, target))
    yield from (replace(base, steps=steps, rows=3) for steps in _steps(base))
    yield from (replace(base, ones=frozenset([name]), rows=rows) for name in base.base.inputs for rows in (1, 3))
    for rank in (1, 2, 3, 4):
        rows = 1 if rank == 1 else base.rows
        yield replace(base, rank=rank, axis=rank - 1, rows=rows)
        for layout in LAYOUT_CLASSES if rank == 1 else ():
            yield replace(base, rank=1, axis=0, rows=1, layouts=dict.fromkeys(base.layouts, layout))
            yield from (
                replace(base, rank=1, axis=0, rows=1, layouts={**base.layouts, name: layout}) for name in base.layouts
            )
    yield replace(base, rank=2, axis=0)


def _placed(base: Blueprint, guard: Guard, offset: int) -> Blueprint:
    """Every tensor at the same place."""
    return replace(base, guard=guard, offset=offset, places={})


def mixed(
    base: Blueprint, target: Target, failing: Sequence[int], key: int, *, few: bool = False
) -> Iterator[Blueprint]:
    """Several things changed at once; half of the time to one of the row lengths that are known to fail."""
    stream = Stream(key)
    able = target.kernel.capabilities
    memories, shared, stacks = _memories(base, target, law=few), _shared(base, law=few), _stacks(base, target)
    dropped = [frozenset[str](), *(frozenset([name]) for name in _optional(base))]
    steps = _steps(base)
    dtypes, names = _dtypes(base, target), [frozenset([name]) for name in base.base.inputs]
    for number in range(_MIXED // (5 if target.costly else 2 if few else 1)):
        words = iter(stream.child(str(number)).words(28).tolist())

        def pick(kept: _T, others: Sequence[_T], words: Iterator[int] = words) -> _T:
            """What the base has, every second time."""
            word = next(words)
            return kept if word % 2 or not others else others[word // 2 % len(others)]

        rank = pick(base.rank, (1, 2, 3))
        guard, offset = pick((base.guard, base.offset), [("before", place) for place in range(16)])
        kept = (guard, offset) == (base.guard, base.offset)
        varied = replace(
            base if kept else _placed(base, guard, offset),
            n=pick(failing[next(words) % len(failing)], range(1, _SWEPT_SLOWLY if target.costly else _SWEPT)),
            rows=1 if rank == 1 else pick(base.rows, _ROWS[:8]),
            rank=rank,
            axis=rank - 1 if rank != base.rank else base.axis,
            dtype=pick(base.dtype, able.dtypes),
            layouts={name: pick(layout, tuple(LAYOUT_CLASSES)) for name, layout in base.layouts.items()},
            values=pick(base.values, VALUES if base.base.apart else UNEVEN),
            seed=number,
            eps=pick(base.eps, EPS),
            dropped=pick(frozenset(), dropped),
            dtypes=pick({}, dtypes),
            ones=pick(frozenset(), names),
            steps=pick(base.steps, steps),
            shared=pick(base.shared, shared),
            stacks=pick(base.stacks, stacks),
        )
        yield _in_memory(varied, pick((base.aliases, base.overlaps), memories))


def elsewhere(base: Blueprint, failing: Sequence[int]) -> Iterator[Blueprint]:
    """Probes for the kernel's other targets: lengths around every width of a vector, and those that fail here."""
    widths = (4, 8, 12, 16, 32, 64)
    lengths = {1, 2, 3, *range(base.n, base.n + 3), *failing[:8], *failing[-4:]}
    lengths |= {k * width + d for width in widths for k in (1, 2, 4, 5) for d in (-1, 0, 1, width // 2)}
    yield from (replace(base, n=n) for n in sorted(lengths))


def _memories(base: Blueprint, target: Target, *, law: bool) -> list[Memory]:
    """No output in the memory of an input; each permitted pair, in place and, where that is permitted, overlapping.

    A law is about tensors that lie apart, or exactly in place.
    """
    able, there = target.kernel.capabilities, {*base.base.inputs, *base.base.outputs}

    def of(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [pair for pair in dict.fromkeys(pairs) if {*pair} <= there]

    own = ((output, source) for output, (source, _) in base.overlaps.items())
    over = [] if law else of([*own, *able.overlap])
    return [
        (frozenset(), {}),
        *((frozenset([pair]), {}) for pair in of([*base.aliases, *able.aliases])),
        *((frozenset[tuple[str, str]](), {output: (source, shift)}) for output, source in over for shift in _SHIFTS),
    ]


def _in_memory(base: Blueprint, memory: Memory) -> Blueprint:
    aliases, overlaps = memory
    return replace(base, aliases=aliases, overlaps=overlaps)


def _shared(base: Blueprint, *, law: bool) -> list[frozenset[str]]:
    """x given a second time, as each of the other inputs of its shape; and no input twice."""
    op = OPS[base.base.op]
    names = [o.name for o in op.inputs if o.role == "grid" and o.name != "x" and o.name in base.base.inputs]
    return [frozenset(), *(frozenset([name]) for name in names if not law)]


def _stacks(base: Blueprint, target: Target) -> list[dict[str, str]]:
    """A weight of rank 1, and of rank 2 with one row and with many."""
    op, able = OPS[base.base.op], target.kernel.capabilities
    names = [o.name for o in op.inputs if o.stackable and o.name in base.base.inputs]
    return [{}, *({name: how} for name in names if able.weight_rows or base.stacks for how in ("one", "many"))]


def _dtypes(base: Blueprint, target: Target) -> list[dict[str, str]]:
    """One tensor other than x in each dtype that it may have."""
    able, there = target.kernel.capabilities, {*base.base.inputs, *base.base.outputs}
    return [
        {name: base.dtype if dtype == "x" else dtype}
        for name, allowed in able.mixed
        for dtype in allowed
        if name in there
    ]


def _steps(base: Blueprint) -> list[dict[str, int]]:
    """One tensor that is a column or a row with gaps or backwards; or none."""
    names = [name for name, tensor in base.base.tensors.items() if name not in base.layouts and tensor.layout.shape]
    return [{}, *({name: step} for name in names for step in (2, 3, -1))]


def _optional(base: Blueprint) -> list[str]:
    op = OPS[base.base.op]
    there = {*base.base.inputs, *base.base.outputs}
    return [operand.name for operand in (*op.inputs, *op.outputs) if operand.optional and operand.name in there]
