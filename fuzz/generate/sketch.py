"""What Hypothesis draws: for whom a case is meant, its size, what it is about. The rest follows from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from fuzz.base.capability import Capability
from fuzz.base.draw import EPS
from fuzz.base.stream import Stream
from fuzz.generate.menus import recipes
from fuzz.generate.shapes import row_counts, row_lengths

_LARGEST_CAPACITY = 2**17
"""elements of the longest row that a kernel's declared limit may ask for."""


@dataclass(frozen=True)
class Sketch:
    """One drawn input in outline."""

    capability: Capability
    """what it is meant for: it is within these capabilities."""
    n: int
    rows: int
    rank: int
    axis: int
    odd: bool
    """goes where only stride-aware kernels can follow."""
    eps: float
    recipe: str
    """of x."""
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
        n = most - (n - most) % min(most, 3)
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
