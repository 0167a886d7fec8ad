"""What Hypothesis draws: for which capability a case is meant, its size, its recipe. The rest follows from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

from fuzz.base.capability import Capability
from fuzz.base.draw import EPS
from fuzz.base.stream import Stream
from fuzz.generate.menus import recipes

BACKEND = "kernelfuzz"
"""The backend's name, for `hypothesis.settings`."""


class SeedProvider(HypothesisProvider):
    """Hypothesis's own distributions, without the constants that it reads out of all modules that are imported.

    With these a seed would give other cases with other modules imported (in a test suite, or installed in another way),
    and the search would begin with parsing sources.
    """

    def _maybe_draw_constant(self, *_: object, **__: object) -> None:
        return None


AVAILABLE_PROVIDERS[BACKEND] = SeedProvider


LARGEST_ROW = 2**16 + 2
"""The longest row that is drawn has this many elements."""
SWEPT_ROWS = 70
"""Every row length from 1 to this is visited in turn, not left to chance."""
LARGEST_CASE = 16384
"""One tensor has at most this many elements, unless a single row is longer."""
USUAL_CASE = 1536
"""One tensor has at most this many elements, unless two rows are longer, or many rows are wanted."""

BLOCKS = (4, 8, 12, 16, 32, 48, 64, 128, 256)
"""The numbers of elements that a vector or an unrolled group of vectors takes in one step: 4 lanes of NEON to 4 x 64
lanes of SVE."""
MODEL_WIDTHS = (768, 1024, 1536, 2048, 2560, 2880, 3072, 4096, 5120, 6144, 7168, 8192)


_LONGEST_ONE_IN = 4
"""Model widths are drawn in two ways. In one of them, one draw in this many is among the longest rows instead: a few of
these take the oracle as long as all others together, and the ones that matter, `THRESHOLDS`, are visited anyway."""

_NEAR = st.sampled_from([0, -1, 1, -2, 2])


def _around_blocks(block: int) -> st.SearchStrategy[int]:
    """k blocks plus any residue: every tail of every block width, short and long bodies."""
    most = max(2, 1024 // block)
    exact = st.builds(lambda k, d: max(k * block + d, 1), st.integers(0, most), st.sampled_from([0, -1, 1]))
    return st.one_of(exact, st.integers(1, most * block))


def row_lengths() -> st.SearchStrategy[int]:
    """n: small, around multiples of vector blocks, around powers of two, around model widths, rarely very long."""
    small = st.integers(1, SWEPT_ROWS)
    powers = st.builds(lambda k, d: max(2**k + d, 1), st.integers(1, 12), _NEAR)
    models = st.builds(lambda width, d: width + d, st.sampled_from(MODEL_WIDTHS), _NEAR)
    longest = st.builds(lambda k, d: min(2**k + d, LARGEST_ROW), st.integers(13, 16), _NEAR)
    blocks = [_around_blocks(block) for block in BLOCKS]
    rare = st.integers(0, _LONGEST_ONE_IN - 1).flatmap(lambda i: longest if i == _LONGEST_ONE_IN - 1 else models)
    return st.one_of(small, small, small, small, *blocks, powers, powers, models, rare)


MANY_ROWS = (131, 132, 133, 255, 256, 257, 263, 264, 265)
"""These are around the sizes of blocks, and once and twice the processors of a large GPU, which persistent kernels
stride by."""
SHORT = 32
"""The number of elements of a row where there are many rows."""
THRESHOLDS = tuple(2**k + d for k in (9, 11, 13, 16) for d in (-1, 0, 1))
"""The row lengths around which kernels are known to change their ways; each is visited."""

_FEW_ROWS = st.one_of(st.integers(1, 4), st.integers(1, 17))
_ROW_COUNTS = st.integers(0, 31).flatmap(lambda i: st.sampled_from(MANY_ROWS) if i == 31 else _FEW_ROWS)
_ENOUGH_ROWS = 2
"""A case that is large by its row length alone has at most this many rows."""


def row_counts(n: int) -> st.SearchStrategy[int]:
    """rows, such that the tensor stays within USUAL_CASE elements: more rows of one length are hardly ever another case
    for a kernel, but take the oracle longer. Many rows are short ones."""
    if n * MANY_ROWS[-1] <= LARGEST_CASE:
        return _ROW_COUNTS
    most = max(_ENOUGH_ROWS if n <= LARGEST_CASE // _ENOUGH_ROWS else 1, USUAL_CASE // n)
    return _FEW_ROWS if most >= 17 else st.integers(1, most)


def offsets(itemsize: int) -> st.SearchStrategy[int]:
    """Elements between the storage and the guard page: flush half of the time, else any alignment modulo 64 bytes."""
    return st.one_of(st.just(0), st.integers(0, 64 // itemsize - 1))


_LARGEST_CAPACITY = 2**17
"""A kernel's declared limit may ask for a longest row of at most this many elements."""


@dataclass(frozen=True)
class Sketch:
    """One drawn input in outline."""

    capability: Capability
    """What the input is meant for: it is within this capability."""
    n: int
    rows: int
    rank: int
    axis: int
    odd: bool
    """Whether the input goes where only stride-aware kernels can follow."""
    eps: float
    recipe: str
    """The recipe of x."""
    seed: int


# Built once: building a strategy costs more than drawing from it.
_RANKS = st.sampled_from([2, 2, 2, 1, 3, 3, 4, 5])
_ROW_LENGTHS = row_lengths()
_EPS = st.sampled_from(EPS)
_NAMES = tuple(recipes())
_RECIPES = st.sampled_from(_NAMES)
_SEEDS = st.integers(0, 2**64 - 1)
_ONE_IN_THREE = st.integers(0, 2).map(lambda i: i == 2)
_ONE_IN_SIXTEEN = st.integers(0, 15).map(lambda i: i == 15)


def sketches(
    capabilities: Sequence[Capability], out_of_capability: Sequence[Capability] = ()
) -> st.SearchStrategy[Sketch]:
    """Inputs for each of `capabilities` alike, of which several may be equal; now and then one for one of
    `out_of_capability`, which no kernel has."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Sketch:
        capability = capabilities[draw(st.integers(0, len(capabilities) - 1))]
        if bool(out_of_capability) and draw(_ONE_IN_SIXTEEN):
            capability = out_of_capability[draw(st.integers(0, len(out_of_capability) - 1))]
        n = fitting_n(capability, draw(_ROW_LENGTHS))
        odd = capability.able.strides == "any" and draw(_ONE_IN_THREE)
        rank = draw(_RANKS)
        return Sketch(
            capability=capability,
            n=n,
            rows=1 if rank == 1 else draw(row_counts(n)),
            rank=rank,
            axis=draw(st.integers(0, rank - 1)) if odd and capability.able.axis == "any" else rank - 1,
            odd=odd,
            eps=draw(_EPS),
            recipe=draw(_RECIPES),
            seed=draw(_SEEDS),
        )

    return drawn()


def fitting_n(capability: Capability, n: int) -> int:
    """The nearest row length that the kernel takes. What is longer than its longest row goes to about that one."""
    most, step = capability.able.max_n, capability.able.multiple_of
    if most is not None and n > most:
        n = most - (n - most) % min(most, 3) if most else 0
    if step > 1 and n % step:
        n += step - n % step
        n = n if most is None or n <= most else n - step
    return n


def fan_out(sketch: Sketch, salt: int, count: int) -> Iterator[Sketch]:
    """`count` relatives of a sketch: their own row length nearby, recipe, eps and seed.

    `salt` sets apart sketches that Hypothesis repeats. The relatives differ from one another in the residue of n, which
    is what tails depend on; now and then one is as long as its kernel takes.
    """
    step_of = sketch.capability.able.multiple_of
    for index in range(count):
        stream = Stream(sketch.seed).child(f"{salt}/{index}")
        recipe, eps, step, longest = (int(word) for word in stream.words(4))
        changed = replace(sketch, seed=stream.key)
        if index:
            changed = replace(
                changed,
                n=fitting_n(sketch.capability, max(1, sketch.n + (step % 33 - 16) * step_of)),
                recipe=_NAMES[recipe % len(_NAMES)],
                eps=EPS[eps % len(EPS)],
            )
        most = sketch.capability.able.max_n
        if most is not None and longest % 64 == 0 and most <= _LARGEST_CAPACITY:
            changed = replace(changed, n=fitting_n(sketch.capability, most), rows=min(sketch.rows, 2))
        yield changed
