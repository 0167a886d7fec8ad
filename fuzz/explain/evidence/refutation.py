"""Probes whose values are in some order, have one sign, or repeat, which show whether a failure that shows with some
ordinary values and not with others needs that; and refutation: probes that may show a rule to be wrong. They lie where
it differs from its rivals, just outside each of its conditions, inside all of them, and between a threshold and the
nearest probe beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case, Origin
from fuzz.core.base.draw import GIVEN, Draw, Frame
from fuzz.core.base.feature import Feature
from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import given_rows, rows_of, stored
from fuzz.core.generate.menus import menus_of
from fuzz.core.generate.search import Search, batches
from fuzz.explain.evidence import probes
from fuzz.explain.evidence.evidence import Known, closing, float32
from fuzz.explain.rule.bounds import HELD, Tried, missing_alone
from fuzz.explain.rule.inducer import Induced
from fuzz.explain.rule.rule import Rule, Traits
from fuzz.explain.rule.traits import size_traits
from oracles.ops import OPS

_LENGTHS = (2, 3, 5, 8, 33)
"""The row lengths of these probes, besides that of the failing case: a short random row may be sorted by chance."""
_FEW_ROWS = (1, 2, 5)
ARRANGED_RECIPE = "arranged"
"""The recipe in the origin of these probes."""
_PLAIN = frozenset(("ones", "integers", "normal", "shifted", "spike"))
"""The recipes of ordinary values."""
ARRANGED: Mapping[str, Callable[[Reals], Reals]] = {
    "ascending": np.sort,
    "descending": lambda values: np.sort(values)[:, ::-1],
    "negative": lambda values: -np.abs(values),
    "positive": np.abs,
    "whole": lambda values: np.rint(values * 64.0),
    "twice each": lambda values: values[:, np.arange(values.shape[-1]) // 2],
    "level": lambda values: np.broadcast_to(values[:, :1], values.shape),
    "alike": lambda values: np.broadcast_to(values[:1], values.shape),
    "zeros between": lambda values: np.where(np.arange(values.shape[-1]) % 2, 0.0, values),
    "first": lambda values: values * np.where(np.arange(values.shape[-1]), 1.0, 256.0),
}
"""The ways to arrange normal values, shape `[rows, n]`."""


def matter(recipes: set[str]) -> bool:
    """Return whether values matter to a failure, given the recipes with which it shows: some ordinary ones lack."""
    return not recipes >= _PLAIN


def arranged(base: Draw, *, slowly: bool = False) -> Iterator[Draw]:
    """Yield draws whose values are arranged, in rows of several lengths unless the target is slow, and draws in which
    only the first row or only a later one has the values of the base."""
    lines = vary.rank_of(base) > 1
    for change in ARRANGED.values():
        for n in sorted({base.n, *(() if slowly else _LENGTHS)}):
            sized = [vary.sized(replace(base, n=n), rows) for rows in _FEW_ROWS if rows == 1 or lines]
            yield from (with_arranged(draw, change, n + place) for place, draw in enumerate(sized))
    for name in _grids(base) if lines else ():
        beside = vary.beside_ordinary(base, name)
        part = beside.part(name)
        assert part.given is not None
        yield from (beside, beside.with_parts(replace(part, given=given_rows(rows_of(part.given)[::-1]))))


def with_arranged(draw: Draw, change: Callable[[Reals], Reals], seed: int) -> Draw:
    """Return the draw with arranged values, of about the size of the given ones, in the tensors of the first input's
    shape."""
    parts = []
    for name in _grids(draw):
        part, rows = draw.part(name), draw.rows
        assert part.given is not None
        with np.errstate(invalid="ignore"):
            given = np.abs(rows_of(part.given).astype(np.float64))
        level = float(given.max(initial=0.0, where=np.isfinite(given))) or 1.0
        values = change(Stream(seed).child(name).normal(rows * draw.n).reshape(rows, draw.n) * level)
        parts.append(replace(part, recipe=GIVEN, given=given_rows(stored(values, part.dtype))))
    return replace(draw.with_parts(*parts), origin=Origin(ARRANGED_RECIPE, "varied"))


def _grids(draw: Draw) -> list[str]:
    """Return the inputs of floats that have the shape of the first one."""
    own, integers = (part.name for part in draw.parts if part.given is not None), vary.integers_of(draw)
    return [name for name in own if name in storage.grids(draw) and name not in integers]


_POOL = 100
"""The number of cases drawn in each round; only those that tell most are run."""
_POOL_SLOWLY = 60
_EACH_RIVAL, _EACH_ATOM, _INSIDE, _OUTSIDE = 2, 3, 12, 8
"""The numbers of cases for each rival, and just outside each condition; then the most other cases inside the rule, and
outside it. A condition that hardly a case was held against gets as many as it lacks."""
_INSIDE_HIDDEN = 36
"""The most cases inside the rule if values are known to hide the failure, since others may too."""
_MISSING = 4
"""The passing cases around which draws are made if few miss a condition alone."""
_MOST_RIVALS = 14
"""The most rivals whose thresholds are tried in one round."""
_NEAR = (-65, -33, -17, -8, -2, -1, 0, 1, 2, 3, 5, 8, 12, 17, 31, 33, 64, 100, 129, 257)
"""The distances from a threshold that are tried."""
_LONG = tuple(2**power + step for power in range(7, 14) for step in (-1, 0, 1, 8, 24, 37))
_SHORT = tuple(range(1, 140))
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65)


def refuting(
    base: Draw,
    target: Target,
    induced: Induced,
    tried: Tried,
    known: Known,
    key: int,
    *,
    law: bool = False,
    hidden: bool = False,
) -> Iterator[Draw]:
    """Yield the draws to run in one round. `hidden` says whether values hide the failure in some probes."""
    rules = [induced.learned.rule, *induced.learned.others]
    yield from closing(base, rules[0], tried, known)
    menu = _menu(base, [*rules, *induced.rivals[:_MOST_RIVALS]], tried)
    count = _POOL_SLOWLY if target.costly or law else _POOL
    combined = probes.combined(base, target, menu, count, key, law=law)
    sized = _sized(base, target, [*rules, *induced.rivals], menu, key)
    valued = () if law else _valued(base, menu, key)
    beside = () if law else _beside(rules, tried, target, key)
    draws = (draw for each in zip_longest(valued, combined, sized, beside) for draw in each if draw is not None)
    pool = [(draw, traits) for draw in draws if (traits := known(draw))]
    yield from _telling(induced, pool, tried, _INSIDE_HIDDEN if hidden else _INSIDE)


def _beside(rules: Sequence[Rule], tried: Tried, target: Target, key: int) -> Iterator[Draw]:
    """Yield draws around passing cases that miss one condition alone, where few cases do."""
    for rule in rules:
        for atom in rule.atoms:
            missing = [case for case in missing_alone(atom, rule, tried) if Frame(case).fits()]
            for case in missing[:_MISSING] if len(missing) < HELD else ():
                yield from probes.some_changed(vary.filled(vary.base_of(case)), target, key)


def searched(target: Target, key: int) -> Iterator[Case]:
    """Yield cases of a search for the kernel, without end: rules are statements about these. Probes are made from one
    failing case, and may share a property that nobody thought of."""
    kernel = target.kernel
    for made in batches(Search(kernel.op, key, [kernel])):
        yield from (each.case for each in made[key % _SPARSE :: _SPARSE] if len(made) > 1)


_SPARSE = 3
"""One case in this many of a turn is taken, since the cases of a turn are much alike."""


def _telling(induced: Induced, pool: Sequence[tuple[Draw, Traits]], tried: Tried, inside: int) -> Iterator[Draw]:
    """Yield the draws of the pool that tell most, each once."""
    learned, chosen = induced.learned, dict[int, Draw]()

    def take(of: Iterable[int], most: int) -> None:
        fresh = [place for place in of if place not in chosen][: max(most, 0)]
        chosen.update((place, pool[place][0]) for place in fresh)

    held = [learned.holds(traits) for _, traits in pool]
    for rival in induced.rivals:
        other = [place for place, (_, traits) in enumerate(pool) if rival.holds(traits) != held[place]]
        take(other, _EACH_RIVAL - sum(place in chosen for place in other))
    for rule in (learned.rule, *learned.others):
        for atom in rule.atoms:
            rest = Rule(tuple(each for each in rule.atoms if each is not atom))
            misses = (p for p, (_, traits) in enumerate(pool) if not held[p] and rest.holds(traits))
            take(misses, max(_EACH_ATOM, HELD - len(missing_alone(atom, rule, tried))))
    for rule in (learned.rule, *learned.others):
        _take_both(take, pool, [p for p, (_, traits) in enumerate(pool) if rule.holds(traits)], inside)
    _take_both(take, pool, [place for place, inside in enumerate(held) if not inside], _OUTSIDE)
    return iter(chosen.values())


def _take_both(
    take: Callable[[Iterable[int], int], None], pool: Sequence[tuple[Draw, Traits]], of: Sequence[int], most: int
) -> None:
    """Take up to `most` cases, half of them with values as a search draws them."""
    origins = [(place, pool[place][0].origin) for place in of]
    take([place for place, origin in origins if origin is not None and origin.recipe == vary.DRAWN], most // 2)
    take(of, most // 2)


def _menu(base: Draw, rules: Sequence[Rule], tried: Tried) -> probes.ProbeMenu:
    """Return a menu of lengths near the thresholds of rules and elsewhere, and of parameters that rules name."""
    op = OPS[base.op]
    length = op.row
    failing = sorted({int(each.traits[Feature("extent", length)]) for each in tried if each.failed}) or [base.n]
    limits = {base.n, *_limits(length, rules)}
    near = [limit + step for limit in sorted(limits) for step in (*_NEAR, limit, 2 * limit)]
    of_rows = sorted(_limits(op.batch_name, rules))
    rows = [limit + step for limit in of_rows for step in (-1, 0, 1, 3, limit)]
    others = [*_SHORT, *near, *near, *_LONG]
    sizes = {
        dim: [size for limit in sorted(_limits(dim, rules)) for step in _NEAR if (size := limit + step) > 0]
        for dim in op.named
    }
    several = [r for r in (*_ROWS, *rows) if r > 0]
    return probes.ProbeMenu(failing, [n for n in others if n > 0], several, 8, _params(base, rules), sizes)


def _params(base: Draw, rules: Sequence[Rule]) -> dict[str, list[float]]:
    named = {atom.trait.subject for rule in rules for atom in rule.atoms}
    return {
        name: [float32(value * 2.0**power) for power in _POWERS]
        for name, value in base.parameters.items()
        if name in named and value
    }


_POWERS = (-8.0, -4.0, -2.0, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0, 4.0)


def _limits(dim: str, rules: Sequence[Rule]) -> set[int]:
    atoms = (atom for rule in rules for atom in rule.atoms if (atom.trait.kind, atom.trait.subject) == ("extent", dim))
    return {int(value) for atom in atoms for value in atom.values if not isinstance(value, str)}


_Size = tuple[tuple[tuple[str, int], ...], tuple[int, ...]]
"""The extents of named dimensions, and those of all other dimensions."""


def _sized(base: Draw, target: Target, rules: Sequence[Rule], menu: probes.ProbeMenu, key: int) -> Iterator[Draw]:
    """Yield the base with other extents and no other change, so that only these can decide: one for each combination of
    conditions that holds for some extents."""
    op, drawn = OPS[base.op], _sizes(base, rules, menu, key)
    known = {
        size: size_traits(op, {**base.sizes, **dict(size[0]), **op.fixed}, size[1], target)
        for size in dict.fromkeys(drawn)
    }
    atoms = [atom for rule in rules for atom in rule.atoms if atom.trait in known[drawn[0]]]
    kinds = {tuple(atom.holds(known[size]) for atom in atoms): size for size in drawn}
    last = base.axis == base.rank - 1
    for sizes, batch in list(kinds.values())[:_SIZED]:
        yield vary.batched(vary.extended(base, dict(sizes)), batch, len(batch) if last else base.axis)


def _sizes(base: Draw, rules: Sequence[Rule], menu: probes.ProbeMenu, key: int) -> list[_Size]:
    """Return extents in an order that follows from the key: those of the menu, and row lengths at various places in the
    blocks that the rules name."""
    op = OPS[base.op]
    told = {atom.trait for rule in rules for atom in rule.atoms if atom.trait.kind == "remainder"}
    moduli = {each.operand for each in told if each.subject == op.row and isinstance(each.operand, int)}
    starts = [n for n in {1, base.n, *_limits(op.row, rules)} if n <= _LONGEST]
    placed = (
        start - start % modulus + turn * modulus + part * modulus // _PARTS + step
        for start in starts
        for modulus in moduli
        for turn in range(4)  # three blocks make no power of two
        for part in range(_PARTS)
        for step in (-1, 0, 1)
    )
    lengths = sorted({n for n in (*menu.others, *placed) if n > 0})
    batches = [vary.sized(base, rows).batch for rows in (menu.rows if vary.rank_of(base) > 1 else ())]
    if base.axis == base.rank - 1 and len(base.batch) > 1:
        batches += [(*batch, 1) for batch in batches]
    batches += [(*batch[1:], batch[0]) for batch in batches if len(batch) > 1]
    words = Stream(key).child("sized").words(3 * _DRAWN).tolist()
    drawn = list(zip(words[::3], words[1::3], words[2::3], strict=True))

    def of(dim: str, known: Sequence[int], word: int) -> tuple[tuple[str, int], ...]:
        return ((dim, known[word % len(known)]),)

    sizes = [(of(op.row, lengths, one), base.batch) for one, _, _ in drawn]
    for dim in (each for each in op.named if each != op.row):
        known = (*menu.sizes[dim], *probes.SIZES)
        sizes += [(of(dim, known, one), base.batch) for one, _, _ in drawn[:_SIZED]]
    if batches:
        sizes += [((), batches[two % len(batches)]) for _, two, _ in drawn]
        sizes += [(of(op.row, lengths, one), batches[three % len(batches)]) for one, _, three in drawn]
    return sizes


_SIZED, _DRAWN, _PARTS, _LONGEST = 120, 1200, 4, 1 << 14


def _valued(base: Draw, menu: probes.ProbeMenu, key: int) -> Iterator[Draw]:
    """Yield the base with values as a search draws them, and with other row lengths: a rule about values may hold only
    for the values that probes are made of."""
    op, menus = OPS[base.op], menus_of(OPS[base.op])
    inputs = [part.name for part in base.parts if op.is_input(part.name)]
    given = [each for each in op.parameters if each.name in base.params]
    grids = [name for name in storage.grids(base) if base.part(name).given is not None and base.rank > 1]
    yield from (vary.beside_ordinary(replace(base, n=n), name) for name in grids for n in {base.n, menu.failing[-1]})
    for number in range(_VALUED):
        words = iter(Stream(key).child(f"valued {number}").words(5 + len(inputs) + len(given)).tolist())
        lengths = (base.n, menu.failing[next(words) % len(menu.failing)], menu.others[next(words) % len(menu.others)])
        n = lengths[next(words) % len(lengths)]
        changed = next(words) % 2
        recipes = {name: menus[name].names[next(words) % len(menus[name].names)] for name in inputs}
        params = {each.name: each.values[next(words) % len(each.values)] for each in given}
        draw = vary.drawn(replace(base, n=n), recipes, key + number)
        yield draw.with_params(**params) if changed else draw


_VALUED = 120
