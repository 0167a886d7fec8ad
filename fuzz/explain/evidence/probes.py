"""Probes: cases around a failure, each with some changes, which show what the failure depends on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from itertools import product as product_of
from typing import TypeVar

from fuzz.core.adapters.target import Target, lane_counts
from fuzz.core.base.case import CACHE_LINE, THREADS, Guard
from fuzz.core.base.draw import Draw, Shift
from fuzz.core.base.stream import Stream
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import UNEVEN, VALUES, judged_values
from fuzz.core.generate.layouts import classes_of
from fuzz.core.generate.storage import Memory
from fuzz.explain.evidence.evidence import FACTORS, with_extents
from oracles.dtypes import ITEMSIZE
from oracles.operand import OUTER
from oracles.ops import OPS

_SWEPT = 260
"""Every n up to this is probed: so each remainder modulo 128 occurs twice, and each modulo 256 once."""
_SWEPT_SLOWLY = 40
"""The same for targets that need milliseconds for a case."""
_LONG_SLOWLY = (63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 257, 1023, 1024, 1025)
"""Lengths at the ends of blocks: without them `n mod 64 = 63` could not be told from `n >= 63`."""
_LONG = (320, 383, 384, 385, 511, 512, 513, 575, 639, 640, 767, 768, 1023, 1024, 1025, 1087, 2047, 2048, 2049)
_LONGEST = (4097, 8193, 16385, 32769, 65535)
"""Long rows, each probed as a single row: in a long row, an error of one element may not show."""
_LONG_ODD = (1027, 4099, 8195, 16387)
"""Lengths of a single row in each dtype: the size of an element may decide how a long row is divided."""
_AROUND = 70
"""The number of lengths after a long one that are probed: all remainders modulo 64."""
_FURTHER = (96, 128, 192, 255, 256, 300, 511, 512, 768, 1000, 1024, 1500, 2048, 3000, 4096)
_LIKE = 24
"""The number of draws that `some_changed` returns. Chosen, not measured."""
_STEPPED = 5
"""The fewest elements of a row in which a step between elements shows."""
_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64)
SIZES = (*range(1, 13), 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 96, 100, 127, 128, 129, 130, 192, 256, 257)
"""The extents that are tried for named dimensions other than the row."""
_CONSTANTS = (1.0, 2.0)
"""The constants that are tried for an input: one that is all ones hides a wrong read of it, and with another constant
it shows whether the constancy or the ones matter."""
_PRODUCT = 1024
"""The least product of two extents that gets probes of its own; for smaller ones other probes suffice."""
_SQUARE = 80
"""The most rows of a square probe."""
_MIXED = 80
"""The number of probes with several changes; at least as many again are drawn to refute a rule."""
_WORDS = 64
"""The number of random words of a probe, one for each thing that may change; ops have about 20 such things."""

_SHIFTS: tuple[Shift, ...] = ((1, 0), (-1, 0), (3, 0), (-3, 0), (0, 1), (0, -1))
_DENSE_SHIFTS: tuple[Shift, ...] = ((1, 0), (-1, 0), (0, 1))
"""The shifts of outputs that do not have the input's strides; they share varying elements with it anyhow."""

_T = TypeVar("_T")


def spread(base: Draw) -> Iterator[Draw]:
    """Yield draws in which two extents have nearly the same product, or slightly more: a kernel may be wrong from some
    product on, while one of the extents is 1 in its smallest case."""
    op, sizes = OPS[base.op], dict(base.sizes)
    sizes |= {op.batch_name: vary.batch_of(base)} if OUTER in op.inputs[0].axes and vary.rank_of(base) > 1 else {}
    for pair in combinations(sizes, 2):
        product = math.prod(sizes[dim] for dim in pair)
        for (one, other), factor in product_of((pair, pair[::-1]), FACTORS[::3] if product > _PRODUCT else ()):
            for more in (0, 1):
                draw = with_extents(base, {one: factor, other: product // factor + more})
                yield from [draw] if draw is not None else []


def swept(base: Draw, target: Target, *, few: bool = False) -> tuple[list[Draw], list[Draw]]:
    """Return draws of every short row length, and of lengths around that of the base, in two lists. The first one tells
    most: if hardly any of its draws passes, the second adds nothing."""
    lengths = _lengths(base, target, few=few)
    first = [n for n in lengths if n <= _SWEPT_SLOWLY or n > _SWEPT or n % 16 in (15, 0, 1) or n % 7 == 0]
    return [replace(base, n=n) for n in first], [replace(base, n=n) for n in lengths if n not in first]


def _lengths(base: Draw, target: Target, *, few: bool) -> list[int]:
    slowly = few or target.costly
    most = _SWEPT_SLOWLY if slowly or base.n > _SWEPT else _SWEPT
    long = _LONG_SLOWLY if target.costly else (*_LONG, *_LONGEST)
    lengths = {*range(1, most + 1), *long, base.n + 1, base.n - 1, 2 * base.n}
    if base.n > _SWEPT:
        after = range(base.n, base.n + (_SWEPT_SLOWLY if slowly else _AROUND))
        lengths |= {*after, *(base.n + step for step in _FURTHER), base.n // 2, 3 * base.n // 4}
    return sorted(n for n in lengths if n > 0)


def changed(base: Draw, target: Target, *, law: bool = False) -> Iterator[Draw]:
    """Yield draws with one change at a time, and some with another number of rows besides."""
    rank, op = vary.rank_of(base), OPS[base.op]
    several = [vary.sized(base, rows) for rows in (3,) if rank > 1]  # a tensor of rank 1 is one row
    one_and_three = [vary.sized(base, rows) for rows in (1, 3) if rows == 1 or rank > 1]
    several = several or [base]
    yield from [base.with_params(**{THREADS: 1})] if THREADS in base.params else []
    yield from _of_sizes(base)
    grids = {name: base.part(name).placement.layout for name in storage.grids(base)}
    classes = classes_of(max(len(base.shape(name)) for name in grids))
    names = [part.name for part in base.parts]
    yield from (vary.sized(base, rows) for rows in _ROWS if rows == 1 or rank > 1)
    yield from (vary.of_dtype(base, dtype) for dtype in target.kernel.able.dtypes)
    for dtype in () if law else target.kernel.able.dtypes:
        yield from (vary.of_dtype(vary.sized(replace(base, n=n), 1), dtype) for n in _LONG_ODD)
    for layout in classes:
        yield from (storage.laid_out(draw, dict.fromkeys(grids, layout)) for draw in (base, *several))
        yield from (storage.laid_out(draw, {name: layout}) for name in grids for draw in several)
    itemsize = ITEMSIZE[base.part(op.main).dtype]
    yield from (storage.placed_at(base, "before", place) for place in range(CACHE_LINE // itemsize))
    yield storage.placed_at(base, "after", 0)
    yield from (storage.placed_at(base, "after", 0, [name]) for name in names if name != op.main)
    yield from (vary.with_values(base, values, seed) for values in judged_values(target.contract) for seed in (1, 2))
    for name, recipes in vary.integers_of(base).items():
        integers = [vary.with_integers(base, {name: recipe}) for recipe in recipes]
        yield from (replace(draw, seed=seed) for draw in integers for seed in (1, 2))
    for parameter in op.parameters:
        for value in vary.values_of(base, parameter):
            other = base.with_params(**{parameter.name: value})
            yield from (other, *(vary.with_values(other, values, base.seed) for values in ("tiny", "large")))
    for draw in one_and_three:
        yield from (_in_memory(draw, memory) for memory in _memories(base, target, law=law))
        yield from (storage.sharing(draw, shared) for shared in _shared(base, law=law))
        yield from (storage.stacked(draw, stacks) for stacks in _stacks(base, target))
    yield from (base.without(name) for name in _optional(base))
    for draw in one_and_three:
        yield from (vary.with_operand(draw, name) for name in _absent(base, target))
    yield from (vary.of_dtypes(base, dtypes) for dtypes in _dtypes(base, target))
    yield from (storage.stepped(draw, steps) for steps in _steps(base) for draw in several)
    constants = [(part.name, value) for part in base.parts if part.given for value in _CONSTANTS]
    yield from (vary.with_constant(draw, *constant) for constant in constants for draw in one_and_three)
    for rank, rows in ((1, 1), (2, vary.batch_of(base)), (3, vary.batch_of(base)), (3, 1), (4, vary.batch_of(base))):
        # A single row of one element lies in memory alike in every layout.
        ranked = vary.sized(replace(base, n=max(base.n, _STEPPED)) if rank > rows else base, rows, rank, rank - 1)
        yield ranked
        if rank > 2 and rows > 1:  # here rows follow each other along another axis than the first
            yield from (vary.batched(ranked, (first, *[1] * (rank - 3), rows)) for first in (1, 2))
        for layout in classes if rows == 1 else ():
            yield storage.laid_out(ranked, dict.fromkeys(grids, layout))
            yield from (storage.laid_out(ranked, {name: layout}) for name in grids)
    yield vary.sized(base, vary.batch_of(base), 2, 0)


def some_changed(base: Draw, target: Target, key: int) -> list[Draw]:
    """Return a few of the draws with one change; the key decides which."""
    every = list(changed(base, target))
    one_in = -(-len(every) // _LIKE)
    return every[key % one_in :: one_in]


def _of_sizes(base: Draw) -> Iterator[Draw]:
    """Yield draws with other extents of one named dimension, and with equal extents of two."""
    sizes = base.sizes
    for dim in sizes:
        yield from (vary.extended(base, {dim: size}) for size in SIZES if dim != OPS[base.op].row)
    for one, other in combinations(sizes, 2):
        yield from (vary.extended(base, {one: size, other: size}) for size in {sizes[one], sizes[other], 5, 16})


@dataclass(frozen=True)
class ProbeMenu:
    """The extents and parameters that probes may have besides those of the base."""

    failing: Sequence[int]
    """The row lengths that fail; every second probe has one of them."""
    others: Sequence[int]
    rows: Sequence[int] = _ROWS[:8]
    square_one_in: int = 0
    """One probe in this many has as many rows as columns; 0 for no square probes."""
    params: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values of parameters besides those that the op draws."""
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Extents of named dimensions besides `SIZES`."""


def mixed(base: Draw, target: Target, failing: Sequence[int], key: int, *, few: bool = False) -> Iterator[Draw]:
    """Yield draws with several changes at once; half of them have a row length that is known to fail."""
    lengths = range(1, _SWEPT_SLOWLY if target.costly else _SWEPT)
    count = _MIXED // (5 if target.costly else 2 if few else 1)
    yield from combined(base, target, ProbeMenu(failing, lengths), count, key, law=few)


def combined(base: Draw, target: Target, menu: ProbeMenu, count: int, key: int, *, law: bool = False) -> Iterator[Draw]:
    """Yield `count` draws with several changes at once."""
    stream, op = Stream(key), OPS[base.op]
    x = base.part(op.main)
    able = target.kernel.able
    memories, shared, stacks = _memories(base, target, law=law), _shared(base, law=law), _stacks(base, target)
    absent = _absent(base, target)
    dropped = [frozenset[str](), *(frozenset([name]) for name in _optional(base))]
    steps = _steps(base)
    dtypes = _dtypes(base, target)
    constants = [(part.name, value) for part in base.parts if part.given for value in _CONSTANTS]
    own_rank, own_rows, integers_of = vary.rank_of(base), vary.batch_of(base), vary.integers_of(base)
    classes = {name: classes_of(len(base.shape(name))) for name in storage.grids(base)}
    for number in range(count):
        words = iter(stream.child(str(number)).words(_WORDS).tolist())

        def pick(kept: _T, others: Sequence[_T], words: Iterator[int] = words) -> _T:
            """Return the base's own value `kept` or, about as often, one of `others`, by the next random word."""
            word = next(words)
            return kept if word % 2 or not others else others[word // 2 % len(others)]

        # The order matters: each line takes the next random word.
        rank = pick(own_rank, (1, 2, 3))
        at: tuple[Guard, int] = (x.placement.guard, x.placement.offset)
        guard, offset = pick(at, [("before", place) for place in range(16)])
        n = pick(menu.failing[next(words) % len(menu.failing)], menu.others)
        axis = pick(base.axis if rank == own_rank else rank - 1, range(rank) if able.axis == "any" else ())
        rows = 1 if rank == 1 else pick(own_rows, menu.rows)
        if menu.square_one_in and next(words) % menu.square_one_in == 0:
            n = rows if rows > 1 else n
            rows = n if rank > 1 and n <= _SQUARE else rows
        dtype = pick(x.dtype, able.dtypes)
        layouts = {name: pick(base.part(name).placement.layout, classes[name]) for name in storage.grids(base)}
        values = pick(x.recipe, judged_values(target.contract, VALUES if storage.is_apart(base) else UNEVEN))
        without, dtypes_of = pick(frozenset(), dropped), pick({}, dtypes)
        constant, step_of = pick(None, constants), pick(storage.steps_of(base), steps)
        joined = pick(None, absent)
        same, stack_of = pick(storage.shared_of(base), shared), pick(storage.stacks_of(base), stacks)
        memory = pick(storage.memory_of(base), memories)
        params = {
            each.name: pick(None, (*vary.values_of(base, each), *menu.params.get(each.name, ())))
            for each in op.parameters
        }
        integers = {name: pick("", recipes) for name, recipes in integers_of.items()}
        sizes = {
            dim: pick(size, (*menu.sizes.get(dim, ()), *SIZES, n)) for dim, size in base.sizes.items() if dim != op.row
        }

        draw = base if (guard, offset) == at else storage.placed_at(base, guard, offset)
        draw = vary.sized(replace(draw, n=n), rows, rank, axis)
        draw = vary.extended(draw, sizes) if sizes else draw
        draw = vary.of_dtypes(vary.of_dtype(draw, dtype), dtypes_of)
        draw = storage.stacked(storage.stepped(storage.laid_out(draw, layouts), step_of), stack_of)
        draw = _in_memory(storage.sharing(draw, same), memory)
        draw = vary.with_values(draw, values, number)
        draw = draw.with_params(**{name: value for name, value in params.items() if value is not None})
        draw = vary.with_constant(draw, *constant) if constant else draw
        draw = vary.with_integers(draw, {name: recipe for name, recipe in integers.items() if recipe})
        draw = draw.without(*without)
        # A kernel may take the stride of the first axis for the stride between rows.
        draw = vary.batched(draw, draw.batch[::-1]) if pick(False, (True, False)) else draw
        yield vary.with_operand(draw, joined) if joined and joined not in {part.name for part in draw.parts} else draw


def elsewhere(base: Draw, target: Target, failing: Sequence[int]) -> Iterator[Draw]:
    """Yield draws for another target of the kernel: lengths around its vector width, or around all common widths, and
    lengths that fail on the first target."""
    widths = lane_counts() if target.lanes is None else {target.lanes}
    lengths = {1, 2, 3, *range(base.n, base.n + 3), *failing[:8], *failing[-4:]}
    lengths |= {k * width + d for width in widths for k in (1, 2, 4, 5) for d in (-1, 0, 1, width // 2)}
    yield from (replace(base, n=n) for n in sorted(lengths))


def _memories(base: Draw, target: Target, *, law: bool) -> list[Memory]:
    """Return ways to place outputs in memory: apart from all inputs, or for each permitted pair in place of the input
    and, if permitted, overlapping it. A law needs tensors that are apart, or exactly in place."""
    able, own = target.kernel.able, storage.memory_of(base)
    # A tensor that the failing case lacks may lie over an input, too.
    there = {part.name for part in base.parts} | {name for name in _absent(base, target) if not law}

    def of(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [pair for pair in dict.fromkeys(pairs) if {*pair} <= there]

    in_place = of([*((name, source) for name, (source, shift, _) in own.items() if not shift), *able.aliases])
    over = [] if law else of([*((name, source) for name, (source, shift, _) in own.items() if shift), *able.overlap])
    return [
        {},
        *({output: (source, None, False)} for output, source in in_place),
        *({output: (source, shift, False)} for output, source in over for shift in _SHIFTS),
        *({output: (source, shift, True)} for output, source in over for shift in _DENSE_SHIFTS),
    ]


def _in_memory(draw: Draw, memory: Memory) -> Draw:
    """Return the draw with this shared memory, and with the tensors in it that the draw lacked."""
    for name in (each for output, (source, _, _) in memory.items() for each in (source, output)):
        if name not in {part.name for part in draw.parts}:
            draw = vary.with_operand(draw, name)
    return storage.in_memory(draw, memory)


def _shared(base: Draw, *, law: bool) -> list[frozenset[str]]:
    """Return ways to give the first input a second time: as one of the other inputs of its shape, or as none."""
    main = OPS[base.op].main
    op = OPS[base.op]
    names = [p.name for p in base.parts if p.given and p.name in op.alike and p.name != main]
    return [frozenset(), *(frozenset([name]) for name in names if not law)]


def _stacks(base: Draw, target: Target) -> list[dict[str, str]]:
    """Return ways to stack a weight: not at all, as one row of rank 2, or as many rows."""
    able, known = target.kernel.able, storage.stacks_of(base)
    names = [part.name for part in base.parts if OPS[base.op].operand(part.name).stackable]
    return [{}, *({name: how} for name in names if name in able.stacked or known for how in ("one", "many"))]


def _dtypes(base: Draw, target: Target) -> list[dict[str, str]]:
    """Return changes of dtype for a single tensor other than the first input."""
    able, there = target.kernel.able, {part.name for part in base.parts}
    main = OPS[base.op].main
    own = base.part(main).dtype
    return [
        {name: own if dtype == main else dtype} for name, allowed in able.mixed for dtype in allowed if name in there
    ]


def _steps(base: Draw) -> list[dict[str, int]]:
    """Return changes of step for a single column or row: none, with gaps, or backwards."""
    of_rows = [part.name for part in base.parts if part.name not in storage.grids(base)]
    names = [name for name in of_rows if vary.rank_of(base) > 1 or OPS[base.op].operand(name).axes != (OUTER,)]
    return [{}, *({name: step} for name in names for step in (2, 3, -1))]


def _absent(base: Draw, target: Target) -> list[str]:
    """Return the optional tensors that the kernel accepts and the base lacks: shrinking has dropped tensors that the
    failure does not need, but that may hide it."""
    there, able = {part.name for part in base.parts}, target.kernel.able
    optional = [each for each in OPS[base.op].operands if each.optional and each.name not in there]
    taken = able.takes if able.takes is not None else [each.name for each in optional]
    return [each.name for each in optional if each.name in taken and each.only_with in ("", *there)]


def _optional(base: Draw) -> list[str]:
    there = {part.name for part in base.parts}
    return [operand.name for operand in OPS[base.op].operands if operand.optional and operand.name in there]
