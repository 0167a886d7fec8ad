"""Sketches: cases in outline, each with its capability, size and recipe. Hypothesis or dice draw a sketch; everything
else follows from its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.core.base.capability import Capability
from fuzz.core.base.feature import Feature
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.menus import menus_of
from oracles.op import Extents
from oracles.operand import Parameter
from oracles.ops import OPS, remembered

Below = Callable[[int], int]
"""A function that draws a number from 0 to one below its argument."""

LARGEST_ROW = 2**16 + 2
"""The longest row that is drawn."""
SWEPT_ROWS = 70
"""The search visits each row length from 1 to this in turn, not by chance."""
LARGEST_CASE = 16384
"""The largest number of elements of a tensor, unless a single row is longer than this."""
USUAL_CASE = 1536
"""The largest number of elements of a tensor, unless two rows are longer than this, or many rows are wanted."""

BLOCKS = (4, 8, 12, 16, 32, 48, 64, 128, 256)
"""The elements that a vector, or a group of vectors, processes in a step: from 4 lanes of NEON to 4 x 64 of SVE."""
MODEL_WIDTHS = (768, 1024, 1536, 2048, 2560, 2880, 3072, 4096, 5120, 6144, 7168, 8192)

N, ROWS = Feature("n"), Feature("rows")
"""The features for the length of rows and for their number, in coverage labels and wishes of every op."""

Lengths = tuple[int, ...]
_NEAR = (0, -1, 1, -2, 2)


def _exact(block: int) -> Lengths:
    """Return lengths of k blocks, one element fewer, and one more."""
    return tuple(max(k * block + d, 1) for k in range(max(2, 1024 // block) + 1) for d in (0, -1, 1))


def _up_to(block: int) -> Lengths:
    """Return lengths with any remainder: every tail of the block's width, after short and long bodies."""
    return tuple(range(1, max(2, 1024 // block) * block + 1))


_SMALL = tuple(range(1, SWEPT_ROWS + 1))
_POWERS = tuple(max(2**k + d, 1) for k in range(1, 13) for d in _NEAR)
_MODELS = tuple(width + d for width in MODEL_WIDTHS for d in _NEAR)
_LONGEST = tuple(min(2**k + d, LARGEST_ROW) for k in range(13, 17) for d in _NEAR)

LENGTHS: tuple[Lengths, ...] = (
    *(_SMALL,) * 32,
    *(lengths for block in BLOCKS for lengths in (*(_exact(block),) * 4, *(_up_to(block),) * 4)),
    *(_POWERS,) * 16,
    *(_MODELS,) * 14,
    *(_LONGEST,) * 2,
)
"""Row lengths: small, around multiples of vector blocks, around powers of two, around model widths, rarely very long.
The oracle takes as long for a few of the longest as for all others. Those in `THRESHOLDS` are visited in any case."""

MANY_ROWS = (131, 132, 133, 255, 256, 257, 263, 264, 265)
"""Numbers of rows around the sizes of blocks, and around once and twice the number of processors of a large GPU, which
is the stride of persistent kernels."""
_MANY_ONE_IN = 32
"""One in this many cases of short rows has many of them."""
SHORT = 32
"""The longest row in a case of many rows."""
THRESHOLDS = tuple(2**k + d for k in (9, 11, 13, 16) for d in (-1, 0, 1))
"""The row lengths around which kernels are known to switch code. The search visits each of them."""

_FEW_ROWS = (4, 17)
"""The usual limits of the number of rows. Half of all cases have at most the first, the others at most the second."""
ENOUGH_ROWS = 2
"""The largest number of rows of a case whose rows are long enough to make it large."""
_STRAY_ONE_IN = 3
"""One in this many sketches uses options that only some kernels take: rows along any axis, any layout."""
_RANKS = (2, 2, 2, 1, 3, 3, 4, 5)


@dataclass(frozen=True)
class Sketch:
    """The outline of a case, such as its shape and its recipe. All else follows from its seed."""

    capability: Capability
    """The capability that the case fits."""
    n: int
    rows: int
    rank: int
    axis: int
    odd: bool
    """Whether the case may have layouts that only stride-aware kernels take."""
    parameters: Mapping[str, float]
    """The value of each parameter for which the kernel takes more than the neutral value."""
    recipe: str
    """The recipe of the first input."""
    seed: int
    outer: tuple[int, ...] = ()
    """The extents of the other axes; () if `rows` is to be spread over them."""
    extents: Extents = field(default_factory=dict)
    """The extents of dimensions that the first input does not have; see `fuzz.core.generate.dims`."""


def sketched(capability: Capability, below: Below) -> Sketch:
    """Return a sketch within `capability`. `below` draws every decision."""
    lengths = LENGTHS[below(len(LENGTHS))]
    n = fitting_n(capability, lengths[below(len(lengths))])
    stray = below(_STRAY_ONE_IN) == _STRAY_ONE_IN - 1
    rank = _RANKS[below(len(_RANKS))]
    return Sketch(
        capability=capability,
        n=n,
        rows=1 if rank == 1 else _rows(n, below),
        rank=rank,
        axis=below(rank) if stray and capability.able.axis == "any" else rank - 1,
        odd=stray and capability.able.strides == "any",
        parameters={each.name: each.values[below(len(each.values))] for each in free_parameters(capability)},
        recipe=first_recipes(capability.op)[below(len(first_recipes(capability.op)))],
        seed=below(2**64),
    )


@remembered(256)
def free_parameters(capability: Capability) -> tuple[Parameter, ...]:
    """Return the parameters that a kernel takes with other values than the neutral one."""
    taken = capability.able.params or ()
    return tuple(each for each in OPS[capability.op].parameters if each.neutral is None or each.name in taken)


@remembered(256)
def first_recipes(op: str) -> tuple[str, ...]:
    """Return the recipes for the first input, some of them several times."""
    return menus_of(OPS[op])[OPS[op].main].often


def simplest(capability: Capability, dice: Dice) -> Sketch:
    """Return a plain sketch. A search begins near it: most wrong kernels are wrong there, and no odd values hide it."""
    return replace(sketched(capability, lambda count: 0), seed=dice.below(2**64))


def _rows(n: int, below: Below) -> int:
    """Return a number of rows for which the tensor stays within USUAL_CASE elements. Further rows of the same length
    hardly ever test anything else, but take the oracle longer. Now and then return many rows, if they are short."""
    if n * MANY_ROWS[-1] <= LARGEST_CASE and below(_MANY_ONE_IN) == _MANY_ONE_IN - 1:
        return MANY_ROWS[below(len(MANY_ROWS))]
    most = max(ENOUGH_ROWS if n <= LARGEST_CASE // ENOUGH_ROWS else 1, USUAL_CASE // max(n, 1))
    return 1 + below(_FEW_ROWS[below(2)] if most >= _FEW_ROWS[-1] else most)


_WORD = st.integers(0, 2**64 - 1)


def sketches(capabilities: Sequence[Capability]) -> st.SearchStrategy[Sketch]:
    """Return a strategy that draws sketches, each of `capabilities` equally often. Some of them may be equal."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Sketch:
        def below(count: int) -> int:
            return draw(_WORD) % count

        return sketched(capabilities[below(len(capabilities))], below)

    return drawn()


@remembered(256)
def drawn_from(capability: Capability) -> Callable[[Stream], Sketch]:
    """Return a function that draws Hypothesis's sketch for `capability` from the words of a stream alone.

    It uses Hypothesis's entry for fuzzers, `fuzz_one_input`. The sketch then depends on nothing else, neither on
    earlier draws nor on imported modules. The entry is set up once, whereas a test that runs one example for each seed
    would be set up each time, which takes several times as long. How the entry reads words is no public interface of
    Hypothesis: where a version has no such entry, or draws nothing from many words, dice draw the sketch.
    """
    found: list[Sketch] = []
    quiet = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))

    @quiet
    @given(sketches([capability]))
    def keep(sketch: Sketch) -> None:
        found.append(sketch)

    example: Callable[[bytes], object] | None = getattr(getattr(keep, "hypothesis", None), "fuzz_one_input", None)

    def drawn(stream: Stream) -> Sketch:
        words = _WORDS
        found.clear()  # a signal may have interrupted an example and left a sketch of another stream
        while example is not None and not found and words <= _MOST_WORDS:  # values out of range are rejected
            example(stream.words(words).tobytes())
            words *= 2
        return found.pop() if found else sketched(capability, Dice(stream).below)

    return drawn


_WORDS, _MOST_WORDS = 64, 1 << 14
"""The number of random words for one sketch, and the most that are tried. More than the first are hardly ever needed,
and twice the first have always sufficed."""


def fitting_n(capability: Capability, n: int) -> int:
    """Return the nearest row length that the kernel takes; see `fitting`."""
    return fitting(capability, OPS[capability.op].row, n)


def fitting(capability: Capability, dim: str, size: int) -> int:
    """Return the nearest extent of a dimension that the kernel takes. For a size above the kernel's largest extent,
    return one close to the largest."""
    fixed = OPS[capability.op].fixed.get(dim)
    if fixed is not None:
        return fixed
    most, step = capability.able.max.get(dim), capability.able.multiple_of.get(dim, 1)
    if most is not None and size > most:
        size = most - (size - most) % min(most, 3) if most else 0
    if step > 1 and size % step:
        size += step - size % step
        size = size if most is None or size <= most else size - step
    return size


def near(sketch: Sketch, dice: Dice) -> Sketch:
    """Return a relative of a sketch: a nearby row length, so another tail, and another recipe, parameters and seed."""
    n = max(1, sketch.n + (dice.below(33) - 16) * sketch.capability.step(OPS[sketch.capability.op].row))
    return Sketch(
        sketch.capability,
        fitting_n(sketch.capability, n),
        sketch.rows,
        sketch.rank,
        sketch.axis,
        sketch.odd,
        {each.name: dice.pick(each.values) for each in free_parameters(sketch.capability)},
        dice.pick(first_recipes(sketch.capability.op)),
        dice.below(2**64),
    )
