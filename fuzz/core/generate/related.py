"""Recipes for values that depend on other inputs, or on the number of places along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate.compared import compared
from fuzz.core.generate.scene import Scene

Relate = Callable[[Scene, str, Stream], Reals]
"""A function that draws the values of the input of that name."""


@dataclass(frozen=True)
class Related:
    """A named way to draw values that depend on other inputs."""

    name: str
    summary: str
    structured: bool
    fill: Relate
    stage: int = 1
    """The recipe may depend on inputs of earlier stages. Recipes of stage 0 depend on no input."""

    by_row: ClassVar[bool] = False


RELATED: dict[str, Related] = {}
"""The recipes of this module by name."""


def _related(summary: str, *, structured: bool, stage: int = 1) -> Callable[[Relate], Relate]:
    def register(fill: Relate) -> Relate:
        name = fill.__name__.strip("_")
        RELATED[name] = Related(name, summary, structured, fill, stage)
        return fill

    return register


STRAYS: dict[str, Related] = {}
"""Recipes for numbers that are no places, for kernels that promise to reject them."""


def _stray_recipe(summary: str) -> Callable[[Relate], Relate]:
    def register(fill: Relate) -> Relate:
        name = fill.__name__.strip("_")
        STRAYS[name] = Related(name, summary, structured=True, fill=fill, stage=0)
        return fill

    return register


@_related("the first input of the other sign, half of it one part in 2**11 off: sums cancel", structured=True)
def _cancelling(scene: Scene, name: str, stream: Stream) -> Reals:
    first = scene.values[scene.op.main]
    if first.shape != scene.shape(name):  # repeat the first input
        first = np.resize(first, scene.shape(name))
    off = stream.child("off").integers(first.size, 0, 1).reshape(first.shape)
    with np.errstate(all="ignore"):
        return -first * (1.0 + off * 2.0**-11)


@_related("what the op itself would have found", structured=False, stage=2)
def _true(scene: Scene, name: str, stream: Stream) -> Reals:
    return scene.input(name)


@_related("what the op itself would have found, up to one part in 2**9 off", structured=False, stage=2)
def _nearly_true(scene: Scene, name: str, stream: Stream) -> Reals:
    found = scene.input(name)
    steps = stream.child("step").integers(found.size, -24, -9).reshape(found.shape)
    with np.errstate(all="ignore"):
        return found * (1.0 + np.ldexp(stream.child("sign").normal(found.size).reshape(found.shape) / 5.0, steps))


@_related("any positive number of a moderate size", structured=False, stage=2)
def _unrelated(scene: Scene, name: str, stream: Stream) -> Reals:
    size = math.prod(scene.shape(name))
    return np.ldexp(1.0 + stream.child("level").uniform(size), stream.child("power").integers(size, -12, 12))


def _places(shape: tuple[int, ...], stream: Stream, count: int) -> Reals:
    return stream.integers(math.prod(shape), 0, count - 1).reshape(shape).astype(np.float64)


@_related("any places, or flags", structured=True, stage=0)
def _any_place(scene: Scene, name: str, stream: Stream) -> Reals:
    return _places(scene.shape(name), stream.child("place"), scene.count(name))


@_related("the first and the last place, by chance", structured=True, stage=0)
def _end_places(scene: Scene, name: str, stream: Stream) -> Reals:
    return _places(scene.shape(name), stream.child("end"), 2) * (scene.count(name) - 1)


@_related("the first place everywhere", structured=True, stage=0)
def _first_place(scene: Scene, name: str, stream: Stream) -> Reals:
    return np.zeros(scene.shape(name))


@_related("the last place everywhere", structured=True, stage=0)
def _last_place(scene: Scene, name: str, stream: Stream) -> Reals:
    return np.full(scene.shape(name), scene.count(name) - 1.0)


@_related("one place everywhere", structured=True, stage=0)
def _one_place(scene: Scene, name: str, stream: Stream) -> Reals:
    return np.full(scene.shape(name), _places((1,), stream.child("place"), scene.count(name))[0])


@_related("0, 1, 2, ..., and again from 0 after the last place", structured=True, stage=0)
def _ascending_places(scene: Scene, name: str, stream: Stream) -> Reals:
    shape = scene.shape(name)
    return (np.arange(math.prod(shape)) % scene.count(name)).reshape(shape).astype(np.float64)


@_related("down from the last place to 0, and again", structured=True, stage=0)
def _descending_places(scene: Scene, name: str, stream: Stream) -> Reals:
    return scene.count(name) - 1.0 - _ascending_places(scene, name, stream)


@_related("any places, a quarter of them missing", structured=True, stage=0)
def _some_missing(scene: Scene, name: str, stream: Stream) -> Reals:
    places = _any_place(scene, name, stream)
    return np.where(_places(places.shape, stream.child("missing"), 4) == 0, _missing(scene, name), places)


@_related("no place anywhere", structured=True, stage=0)
def _all_missing(scene: Scene, name: str, stream: Stream) -> Reals:
    return np.full(scene.shape(name), _missing(scene, name))


@_related("a single place, all others missing", structured=True, stage=0)
def _one_kept(scene: Scene, name: str, stream: Stream) -> Reals:
    places = _any_place(scene, name, stream)
    kept = stream.child("kept").integers(1, 0, max(places.size, 1) - 1)[0]
    return np.where(np.arange(places.size).reshape(places.shape) == kept, places, _missing(scene, name))


@_related("any places up to some one, and missing after it, as where sequences are padded", structured=True, stage=0)
def _missing_after(scene: Scene, name: str, stream: Stream) -> Reals:
    return np.where(_set_up_to(scene, name, stream) == 1.0, _any_place(scene, name, stream), _missing(scene, name))


@_related("pieces of any lengths, the last one to the end", structured=True, stage=0)
def _any_ends(scene: Scene, name: str, stream: Stream) -> Reals:
    ends = _early_ends(scene, name, stream)
    ends[..., -1:] = scene.count(name) - 1.0
    return ends


@_related("pieces of any lengths, and what is left behind the last one", structured=True, stage=0)
def _early_ends(scene: Scene, name: str, stream: Stream) -> Reals:
    return np.sort(_any_place(scene, name, stream), -1)


@_related("pieces of one length, or of one more", structured=True, stage=0)
def _even_ends(scene: Scene, name: str, stream: Stream) -> Reals:
    shape = scene.shape(name)
    return np.broadcast_to(np.floor(np.arange(1.0, 1.0 + shape[-1]) * (scene.count(name) - 1) / shape[-1]), shape)


@_related("every other piece is empty", structured=True, stage=0)
def _every_other_end(scene: Scene, name: str, stream: Stream) -> Reals:
    ends, first = _any_ends(scene, name, stream), int(stream.child("first").integers(1, 0, 1)[0])
    before = np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], -1)
    return np.where(np.arange(ends.shape[-1]) % 2 == first, before, ends)


@_related("one piece has everything, all others are empty", structured=True, stage=0)
def _one_piece(scene: Scene, name: str, stream: Stream) -> Reals:
    shape = scene.shape(name)
    chosen = stream.child("chosen").integers(math.prod(shape[:-1]), 0, max(shape[-1] - 1, 0)).reshape(*shape[:-1], 1)
    return np.where(np.arange(shape[-1]) >= chosen, scene.count(name) - 1.0, 0.0)


@_related("whole blocks, and one element more or less", structured=True, stage=0)
def _next_to_blocks(scene: Scene, name: str, stream: Stream) -> Reals:
    """Return positions next to the ends of blocks. A block is as long as the last of several dimensions, or 16."""
    along, most = scene.op.operand(name).along, scene.count(name) - 1
    block = max(scene.extents[along[-1]], 1) if len(along) > 1 else 16
    whole = _places(scene.shape(name), stream.child("blocks"), most // block + 1) * block
    return np.clip(whole + _places(whole.shape, stream.child("more"), 3) - 1.0, 0.0, most)


def _missing(scene: Scene, name: str) -> float:
    missing = scene.op.operand(name).missing
    assert missing is not None
    return float(missing)


def _stray(scene: Scene, name: str) -> Reals:
    """Return numbers that are no places. They lie next to the first and the last place, or would become a place if a
    kernel counted from the end, wrapped, or narrowed them to 32 bits."""
    count, missing = scene.count(name), scene.op.operand(name).missing
    near = (-1.0, float(count), count + 1.0, -float(count), 2.0**31 - 1.0, -(2.0**31), 2.0**32)
    return np.array([*(each for each in near if each != missing), *([] if missing is None else [missing - 1.0])])


@_stray_recipe("any places but for one number that is no place")
def _one_stray(scene: Scene, name: str, stream: Stream) -> Reals:
    places, strays = _any_place(scene, name, stream), _stray(scene, name)
    at, which = stream.child("at").words(2) % np.array([max(places.size, 1), strays.size], np.uint64)
    return np.where(np.arange(places.size).reshape(places.shape) == at, strays[which], places)


@_stray_recipe("numbers that are no places everywhere")
def _all_stray(scene: Scene, name: str, stream: Stream) -> Reals:
    strays = _stray(scene, name)
    return strays[_places(scene.shape(name), stream.child("stray"), strays.size).astype(np.int64)]


def _codes(scene: Scene, name: str, stream: Stream, lowest: int, highest: int) -> Reals:
    shape = scene.shape(name)
    return stream.child("code").integers(math.prod(shape), lowest, highest).reshape(shape).astype(np.float64)


@_related("any number that the dtype has", structured=False, stage=0)
def _any_code(scene: Scene, name: str, stream: Stream) -> Reals:
    return _codes(scene, name, stream, *scene.span(name))


@_related("whole numbers from -2 to 2", structured=True, stage=0)
def _small_codes(scene: Scene, name: str, stream: Stream) -> Reals:
    lowest, highest = scene.span(name)
    return _codes(scene, name, stream, max(lowest, -2), min(highest, 2))


@_related("the smallest and the largest number of the dtype, by chance", structured=True, stage=0)
def _end_codes(scene: Scene, name: str, stream: Stream) -> Reals:
    lowest, highest = scene.span(name)
    return lowest + _codes(scene, name, stream, 0, 1) * (highest - lowest)


@_related("the two largest numbers of the dtype, by chance", structured=True, stage=0)
def _high_codes(scene: Scene, name: str, stream: Stream) -> Reals:
    _, highest = scene.span(name)
    return _codes(scene, name, stream, highest - 1, highest)


@_related("the smallest number of the dtype everywhere", structured=True, stage=0)
def _lowest_code(scene: Scene, name: str, stream: Stream) -> Reals:
    return np.full(scene.shape(name), float(scene.span(name)[0]))


@_related("one number that is not 0, and zeros everywhere else", structured=True, stage=0)
def _one_code(scene: Scene, name: str, stream: Stream) -> Reals:
    values, (_, highest) = np.zeros(scene.shape(name)), scene.span(name)
    if values.size:
        at = stream.child("place").integers(1, 0, values.size - 1)[0]
        values.flat[at] = stream.child("code").integers(1, 1, highest)[0]
    return values


@_related("numbers that the formula compares with, or next to one, and any others", structured=True, stage=0)
def _near_codes(scene: Scene, name: str, stream: Stream) -> Reals:
    lowest, highest = scene.span(name)
    others = _codes(scene, name, stream, lowest, highest)
    numbers = compared(scene.op, tuple(scene.parameters.items())).get(name, ())
    known = [each + more for each in numbers for more in (0, 0, -1, 1) if lowest <= each + more <= highest]
    if not known:
        return others
    which = stream.child("which").integers(others.size, 0, 2 * len(known) - 1).reshape(others.shape)  # half of them
    return np.where(which < len(known), np.take(known, which % len(known)), others)


@_related("1 up to some place, and 0 after it, as where sequences are padded", structured=True, stage=0)
def _set_up_to(scene: Scene, name: str, stream: Stream) -> Reals:
    shape = scene.shape(name)
    n = shape[-1] if shape else 1
    ends = _places((*shape[:-1], 1), stream.child("end"), n + 1) if shape else 1.0
    return (np.arange(n) < ends).astype(np.float64).reshape(shape)
