"""Closing: probes between a threshold of a rule and the nearest passing probe beyond it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from fuzz.core.base.draw import Draw, Frame
from fuzz.core.base.feature import Feature, Kind
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import given_rows, rows_of, stored
from fuzz.explain.rule.bounds import Tried, gaps, is_close, plainest
from fuzz.explain.rule.rule import Atom, Rule, Traits
from oracles.dtypes import SINGLE, form
from oracles.ops import OPS

_POINTS = 4
"""The number of points that divide the gap between a threshold and the nearest probe beyond it."""
_ALONG = 24
"""The number of values from such a point on, among which one that meets the other conditions is sought."""

Known = Callable[[Draw], Traits | None]
"""A function that returns the traits of a draw's case; None if the kernel does not accept the case."""


def float32(value: float) -> float:
    """Return the value rounded to float32, the dtype in which kernels take parameters."""
    return float(np.float32(value))


def closing(base: Draw, rule: Rule, tried: Tried, known: Known) -> Iterator[Draw]:
    """Yield draws between each threshold and the nearest passing probe beyond it that meets all other conditions."""
    for atom, rest, gap in gaps(rule, tried):
        if atom.trait.hides:
            yield from _rescaled(atom, gap, tried, known)
        if _vary(base, atom.trait, 1.0) is not None:
            yield from _divided(base, atom, rest, gap, known)
    for atom in rule.atoms:
        if atom.relation == "within":
            yield from _in_bands(base, atom, rule, tried)


def _in_bands(base: Draw, atom: Atom, rule: Rule, tried: Tried) -> Iterator[Draw]:
    """Yield draws for numbers in bands and just beside them that were not tried, and for the next band if the bands
    continue as they began: a few failing numbers may be bands, or a remainder modulo a block."""
    limits = [value for value in atom.values if isinstance(value, int)]
    if len(limits) < len(atom.values):  # a real number has no next one
        return
    bands = list(zip(limits[::2], limits[1::2], strict=True))
    rest = Rule(tuple(each for each in rule.atoms if each is not atom))
    known = {each.traits[atom.trait] for each in tried if atom.trait in each.traits and rest.holds(each.traits)}
    beside = (value for low, high in bands for value in range(low - 1, min(high, low + _ALONG) + 2))
    numbers = [2 * bands[-1][0] - bands[-2][0], *beside]
    fresh = [value for value in dict.fromkeys(numbers) if value > 0 and value not in known]
    yield from (draw for value in fresh[:_ALONG] if (draw := _vary(base, atom.trait, value)) is not None)


def _rescaled(atom: Atom, gap: tuple[float, float], tried: Tried, known: Known) -> Iterator[Draw]:
    """Yield draws whose trait lies in a gap, made from a probe at one end of it by scaling an input, or by blending
    other values into it."""
    limit, beyond = (_power(atom.trait, end) for end in gap)
    if limit is None or beyond is None or (math.isinf(limit) and math.isinf(beyond)):
        return
    aims, plain = _aims(limit, beyond), plainest(*gap)
    if is_close(atom, gap):
        aims = [math.log2(abs(plain))] if atom.trait.topic.form == "quantile" and plain not in gap else []
    finite = gap[0] if math.isfinite(limit) else gap[1]
    values = [float(each.traits[atom.trait]) for each in tried if each.failed and atom.holds(each.traits)]
    purest = max(values) if atom.relation == ">=" else min(values)
    ways = (
        (finite, vary.scaled, (0.0, _STEP), _STEP / 2),
        (finite, vary.scaled, (0.0, -_STEP), _STEP / 2),  # the values of no dtype can all grow that far
        (finite, scaled_row, (0.0, -_STEP), _STEP / 2),
        (purest, vary.blended, (-2 * _STEP, -_STEP), 0.0),
    )
    for end, change, powers, least in ways:
        at = [p.case for p in tried if p.traits.get(atom.trait) == end and Frame(p.case).fits()]
        if not at:
            continue
        base = vary.base_of(max(at, key=lambda case: min(Frame(case).n, _TELLING)))
        own = atom.trait.tensor
        for name in [own] if own else storage.grids(base):
            if name in {part.name for part in base.parts} and base.part(name).given is not None:
                first, second = (_level(known(change(base, name, power)), atom.trait) for power in powers)
                if first is not None and second is not None and math.inf > abs(first - second) > least:
                    by = (powers[1] - powers[0]) / (second - first)
                    draws = [change(base, name, powers[0] + (aim - first) * by) for aim in aims]
                    yield from (
                        (_exactly(draw, name, atom, plain, known) for draw in draws) if is_close(atom, gap) else draws
                    )
                    return


def _exactly(draw: Draw, name: str, atom: Atom, number: float, known: Known) -> Draw:
    """Return the draw with the exact number in place of the nearby one to which scaling has rounded it. The draw is in
    f32 if its dtype lacks the number and the kernel accepts f32."""
    value = (known(draw) or {}).get(atom.trait)
    near = max(_NEAR, form(draw.part(name).dtype).u)
    if not isinstance(value, float) or not 0 < abs(value - number) <= near * abs(number):
        return draw
    exact = vary.exchanged(draw, name, value, number)
    if (known(exact) or {}).get(atom.trait) == number:
        return exact
    finer = vary.exchanged(vary.of_dtype(draw, SINGLE.name), name, value, number)
    return finer if known(finer) else exact


_NEAR = 0.01
"""The largest relative change by rounding after scaling, unless the dtype has fewer than 7 bits."""
_TELLING = 32
"""The number of elements beyond which a longer row is not preferred: a shorter row may not show the trait."""


def _aims(limit: float, beyond: float) -> list[float]:
    """Return points between two powers of two, one of which may be infinite."""
    parts = range(1, _POINTS + 1)
    if math.isfinite(limit - beyond):
        return [limit + (beyond - limit) * part / (_POINTS + 1) for part in parts]
    return [min(limit, beyond) + 4.0**part for part in parts]


def _level(traits: Traits | None, trait: Feature) -> float | None:
    """Return the value of a trait as a power of two."""
    value = traits.get(trait) if traits is not None else None
    return None if value is None or isinstance(value, str) else _power(trait, float(value))


def _power(trait: Feature, value: float) -> float | None:
    if trait.topic.form != "quantile":
        return value
    return math.log2(abs(value)) if value else None


_STEP = 4.0
"""The step in powers of two by which an input is scaled, to see how a trait follows."""


def scaled_row(draw: Draw, name: str, power: float) -> Draw:
    """Return the draw with one row of an input, that of the largest magnitude, multiplied by 2^power."""
    part = draw.part(name)
    assert part.given is not None
    with np.errstate(all="ignore"):
        values = rows_of(part.given).astype(np.float64)
        values[np.abs(values).max(axis=-1, initial=0.0).argmax()] *= np.exp2(power)
        given = given_rows(stored(values, part.given.dtype))
    return draw.with_parts(replace(part, given=given))


def _divided(base: Draw, atom: Atom, rest: Rule, gap: tuple[float, float], known: Known) -> Iterator[Draw]:
    """Yield draws for points in a gap, each moved on until the other conditions hold."""
    limit, nearest = gap
    whole = isinstance(atom.values[0], int)
    if not whole:
        if limit > 0 and nearest > 0 and not is_close(atom, gap):
            values = (limit * (nearest / limit) ** (part / (_POINTS + 1)) for part in range(1, _POINTS + 1))
            yield from (draw for value in values if (draw := _vary(base, atom.trait, value)) is not None)
        return
    first, last = sorted((int(limit), int(nearest)))
    step = max((last - first) // (_POINTS + 1), 1)
    for place in [first + 1, *range(first + step, last, step)][: _POINTS + 2]:
        for value in range(place, min(place + _ALONG, last)):
            draw = _vary(base, atom.trait, value)
            traits = known(draw) if draw is not None else None
            if draw is not None and traits and rest.holds(traits):
                yield draw
                break


FACTORS = (2, 3, 4, 8, 16, 32, 64, 128, 256)
"""The extents that are tried for one of two dimensions if their product matters."""
_SECOND = 512
"""The second extent where the ratio of two matters: with a small one, ratios are far from each other."""


def _vary(base: Draw, trait: Feature, value: float) -> Draw | None:
    """Return the base with another value for a trait; None if the trait cannot be set."""
    edit = _EDITS.get(trait.kind)
    return edit(base, trait, value) if edit is not None else None


def _of_product(base: Draw, trait: Feature, value: float) -> Draw | None:
    """Return the base with another product of two extents, the first the largest of `FACTORS` that divides it."""
    dims, whole = (trait.subject, str(trait.operand)), int(value)
    first = next((each for each in reversed(FACTORS) if whole % each == 0), 1)
    return with_extents(base, dict(zip(dims, (first, whole // first), strict=True)))


def _of_ratio(base: Draw, trait: Feature, value: float) -> Draw | None:
    """Return the base with another ratio of two extents."""
    return with_extents(base, {trait.subject: round(value * _SECOND), str(trait.operand): _SECOND})


def with_extents(base: Draw, extents: Mapping[str, int]) -> Draw | None:
    """Return the base with these extents of named dimensions and of all others; None if its rank has no room."""
    op = OPS[base.op]
    draw = vary.extended(base, {dim: size for dim, size in extents.items() if dim in op.named})
    rows = next((size for dim, size in extents.items() if dim not in op.named), None)
    if rows is None:
        return draw
    return vary.sized(draw, rows) if vary.rank_of(base) > 1 or rows == 1 else None


def _of_extent(base: Draw, trait: Feature, value: float) -> Draw | None:
    return with_extents(base, {trait.subject: int(value)})


def _of_blocks(base: Draw, trait: Feature, value: float) -> Draw | None:
    block = int(value) & -int(value)
    return vary.sized(replace(base, n=block), int(value) // block) if vary.rank_of(base) > 1 else None


def _of_furthest(base: Draw, trait: Feature, value: float) -> Draw | None:
    op = OPS[base.op]
    if trait.subject != op.main or len(op.inner) > 1:
        return None
    row = storage.placed_at(vary.sized(replace(base, n=int(value) + 1), 1), "before", 0)  # the last element is furthest
    return storage.laid_out(row, dict.fromkeys(storage.grids(base), "contiguous"))


def _of_parameter(base: Draw, trait: Feature, value: float) -> Draw | None:
    return base.with_params(**{trait.subject: float32(value)}) if trait.subject in base.params else None


_EDITS: Mapping[Kind, Callable[[Draw, Feature, float], Draw | None]] = {
    "extent": _of_extent, "product": _of_product, "ratio": _of_ratio, "in blocks": _of_blocks, "furthest": _of_furthest,
    "parameter": _of_parameter, "scale": _of_parameter,
}  # fmt: skip
"""The function that gives a draw another value for a feature, by the feature's kind."""
