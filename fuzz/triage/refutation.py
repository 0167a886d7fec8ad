"""Refutation: probes that could show a rule to be wrong: what its rivals say otherwise of, what is just outside one of
its conditions or inside all of them, and what lies between a threshold and the nearest probe beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fuzz.adapters.target import Target
from fuzz.base.draw import Draw
from fuzz.base.stream import Stream
from fuzz.triage import probes
from fuzz.triage import variations as vary
from fuzz.triage.inducer import Induced
from fuzz.triage.rule import Atom, Rule, Traits
from fuzz.triage.traits import BATCH, length_of
from fuzz.triage.values import is_about_values
from oracles.ops import OPS

_POOL = 100
"""So many cases are drawn in each round, of which those are run that can tell most."""
_POOL_SLOWLY = 60
_EACH_RIVAL, _EACH_ATOM, _INSIDE, _OUTSIDE = 2, 3, 10, 6
"""So many cases about each rival and just outside each condition, and so many others inside and outside the rule."""
_MOST_RIVALS = 14
"""So many rivals are asked about in one round: what refutes one often refutes others."""
_NEAR = (-65, -33, -17, -8, -2, -1, 0, 1, 2, 3, 5, 8, 12, 17, 31, 33, 64, 100, 129, 257)
"""Distances from a threshold."""
_LONG = tuple(2**power + step for power in range(7, 14) for step in (-1, 0, 1, 8, 24, 37))
_SHORT = tuple(range(1, 140))
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65)
_POINTS = 4
"""A gap between a threshold and the nearest probe beyond it is divided at so many places."""
_ALONG = 24
"""So many neighbours of such a place are looked at for one that meets the other conditions."""

Known = Callable[[Draw], Traits | None]
"""The traits of a draw's case; None where it is none for this kernel."""


def refuting(
    base: Draw,
    target: Target,
    induced: Induced,
    tried: Sequence[tuple[Traits, bool]],
    known: Known,
    key: int,
    *,
    law: bool = False,
) -> Iterator[Draw]:
    """What is to be run in one round, given what was tried and whether it failed."""
    rules = [induced.learned.rule, *induced.learned.others]
    yield from closing(base, rules[0], tried, known)
    menu = _menu(base, [*rules, *induced.rivals[:_MOST_RIVALS]], tried)
    count = _POOL_SLOWLY if target.costly or law else _POOL
    pool = [
        (draw, traits) for draw in probes.combined(base, target, menu, count, key, law=law) if (traits := known(draw))
    ]
    pool += [(draw, traits) for draw in _sized(base, menu, key) if (traits := known(draw))]
    yield from _telling(induced, pool)


def _telling(induced: Induced, pool: Sequence[tuple[Draw, Traits]]) -> Iterator[Draw]:
    """Those of the pool that can tell most, each once."""
    learned, chosen = induced.learned, dict[int, Draw]()

    def take(of: Iterable[int], most: int) -> None:
        fresh = [place for place in of if place not in chosen][:most]
        chosen.update((place, pool[place][0]) for place in fresh)

    held = [learned.holds(traits) for _, traits in pool]
    for rival in induced.rivals[:_MOST_RIVALS]:
        take((place for place, (_, traits) in enumerate(pool) if rival.holds(traits) != held[place]), _EACH_RIVAL)
    for rule in (learned.rule, *learned.others):
        for atom in rule.atoms:
            rest = Rule(tuple(each for each in rule.atoms if each is not atom))
            misses = (p for p, (_, traits) in enumerate(pool) if not held[p] and rest.holds(traits))
            take(misses, _EACH_ATOM)
    take((place for place, inside in enumerate(held) if inside), _INSIDE)
    take((place for place, inside in enumerate(held) if not inside), _OUTSIDE)
    return iter(chosen.values())


def _menu(base: Draw, rules: Sequence[Rule], tried: Sequence[tuple[Traits, bool]]) -> probes.Menu:
    """Lengths near the thresholds of rules, and any; parameters of about the base's size, where a rule names them."""
    op = OPS[base.op]
    length = length_of(op)
    failing = sorted({int(traits[length]) for traits, failed in tried if failed}) or [base.n]
    limits = {base.n, *_limits(length, rules)}
    near = [limit + step for limit in sorted(limits) for step in (*_NEAR, limit, 2 * limit)]
    of_rows = sorted(_limits("rows" if op.by_rows else BATCH, rules))
    rows = [limit + step for limit in of_rows for step in (-1, 0, 1, 3, limit)]
    others = [*_SHORT, *near, *near, *_LONG]
    sizes = {
        dim: [size for limit in sorted(_limits(dim, rules)) for step in _NEAR if (size := limit + step) > 0]
        for dim in (() if op.by_rows else op.named)
    }
    several = [r for r in (*_ROWS, *rows) if r > 0]
    return probes.Menu(failing, [n for n in others if n > 0], several, 8, _params(base, rules), sizes)


def _params(base: Draw, rules: Sequence[Rule]) -> dict[str, list[float]]:
    named = {word for rule in rules for atom in rule.atoms for word in atom.trait.split()}
    return {
        name: [_float32(value * 2.0**power) for power in _POWERS]
        for name, value in base.parameters.items()
        if name in named and value
    }


_POWERS = (-8.0, -4.0, -2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0, 4.0)


def _float32(value: float) -> float:
    """Kernels take parameters in float32."""
    return float(np.float32(value))


def _limits(trait: str, rules: Sequence[Rule]) -> set[int]:
    atoms = (atom for rule in rules for atom in rule.atoms if atom.trait == trait)
    return {int(value) for atom in atoms for value in atom.values if not isinstance(value, str)}


def _sized(base: Draw, menu: probes.Menu, key: int) -> Iterator[Draw]:
    """The base with other extents alone, so that nothing else decides."""
    words = Stream(key).child("sized").words(2 * _SIZED).tolist()
    for number in range(_SIZED):
        n, rows = menu.others[words[2 * number] % len(menu.others)], vary.batch_of(base)
        if not OPS[base.op].by_rows and number % 4:  # the others are about the length of rows
            dim = OPS[base.op].named[number % len(OPS[base.op].named)]
            known = (*menu.sizes[dim], *probes.SIZES)
            yield vary.extended(base, {dim: known[words[2 * number] % len(known)]})
            continue
        if vary.rank_of(base) > 1 and words[2 * number + 1] % 2:
            rows = menu.rows[words[2 * number + 1] // 2 % len(menu.rows)]
        yield vary.sized(replace(base, n=n), rows)


_SIZED = 40


def closing(base: Draw, rule: Rule, tried: Sequence[tuple[Traits, bool]], known: Known) -> Iterator[Draw]:
    """Between each threshold and the nearest passing probe beyond it that meets the other conditions."""
    for atom, rest, gap in _gaps(rule, tried):
        if is_about_values(atom.trait):
            yield from _rescaled(base, atom, gap, known)
        if _vary(base, atom.trait, 1.0) is not None:
            yield from _divided(base, atom, rest, gap, known)


def is_open(rule: Rule, tried: Sequence[tuple[Traits, bool]]) -> bool:
    """Whether a threshold of values lies far from the nearest passing probe beyond it: it may be anywhere between."""
    return any(is_about_values(atom.trait) and not _is_close(atom, gap) for atom, _, gap in _gaps(rule, tried))


def _gaps(rule: Rule, tried: Sequence[tuple[Traits, bool]]) -> Iterator[tuple[Atom, Rule, tuple[float, float]]]:
    """Each threshold, with the other conditions, and with the nearest passing value beyond it."""
    for atom in rule.atoms:
        if atom.relation in (">=", "<="):
            rest = Rule(tuple(each for each in rule.atoms if each is not atom))
            limit, up = float(atom.values[0]), atom.relation == "<="
            passing = (t[atom.trait] for t, failed in tried if not failed and atom.trait in t and rest.holds(t))
            beyond = [float(value) for value in passing if (float(value) > limit if up else float(value) < limit)]
            if beyond:
                yield atom, rest, (limit, min(beyond) if up else max(beyond))


def _is_close(atom: Atom, gap: tuple[float, float]) -> bool:
    limit, nearest = gap
    if atom.trait.startswith("log2 of "):
        return abs(limit - nearest) <= 1
    return limit * nearest > 0 and abs(nearest / limit - 1) <= _CLOSE


def _rescaled(base: Draw, atom: Atom, gap: tuple[float, float], known: Known) -> Iterator[Draw]:
    """Places in a gap that the base comes to when an input is scaled."""
    if _is_close(atom, gap):
        return
    for name in vary.grids(base):
        if base.part(name).given is None:
            continue
        first, second = (_number(known(vary.scaled(base, name, power)), atom.trait) for power in (0.0, _STEP))
        if first is not None and second is not None and first != second:
            by = _STEP / (second - first)
            aims = (gap[0] + (gap[1] - gap[0]) * part / (_POINTS + 1) for part in range(1, _POINTS + 1))
            yield from (vary.scaled(base, name, (aim - first) * by) for aim in aims)
            return


def _number(traits: Traits | None, trait: str) -> float | None:
    value = traits.get(trait) if traits is not None else None
    return None if value is None or isinstance(value, str) else float(value)


_STEP = 4.0
"""How a trait follows the scale of an input is seen by a step of so many powers of two."""


def _divided(base: Draw, atom: Atom, rest: Rule, gap: tuple[float, float], known: Known) -> Iterator[Draw]:
    """Places in a gap, each moved on until the other conditions hold."""
    limit, nearest = gap
    whole = isinstance(atom.values[0], int)
    if not whole:
        if limit > 0 and nearest > 0 and not _is_close(atom, gap):
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


_CLOSE = 0.01
"""A parameter's threshold is known well enough where a value passes that is so little beyond it."""


def _vary(base: Draw, trait: str, value: float) -> Draw | None:
    """The base with another number of what a trait is about; None where it is no such trait."""
    op = OPS[base.op]
    if not op.by_rows and trait in op.named:
        return vary.extended(base, {trait: int(value)})
    if trait == "n" and op.by_rows:
        return replace(base, n=int(value))
    if trait == ("rows" if op.by_rows else BATCH):
        return vary.sized(base, int(value)) if vary.rank_of(base) > 1 or value == 1 else None
    known = {each.name for each in OPS[base.op].parameters} & {*base.params}
    return base.with_params(**{trait: _float32(value)}) if trait in known else None
