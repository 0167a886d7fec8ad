"""Evidence: the probes around a failure, and whether each of them failed; and closing: probes between a threshold of a
rule and the nearest passing probe beyond it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import Draw, Frame
from fuzz.core.base.feature import Feature, Kind
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import given_rows, rows_of, stored
from fuzz.core.generate.realise import draw_of
from fuzz.core.generate.variations import made, with_values
from fuzz.core.judge.judge import Judgement
from fuzz.explain.rule.bounds import Probed, Tried, gaps, is_close, plainest
from fuzz.explain.rule.inducer import Induced, induce
from fuzz.explain.rule.rule import Atom, Rule, Traits
from fuzz.explain.trial.trial import Trials
from oracles.dtypes import SINGLE, form
from oracles.ops import OPS

_BATCH = 16
_VARIANTS = (3, 9)
"""The numbers of other values with which a law is tried besides the case's own, in two goes: luck decides whether two
orders of a sum round differently."""
_LARGEST = 1 << 13
_LARGEST_ROW = 1 << 16
"""The most elements of a probe, unless the failing row itself is longer, since the oracle evaluates each element of a
failure in high precision; and the most in any case."""
_FEW_ROWS = 3


@dataclass(frozen=True)
class Masking:
    """Whether values hide a failure but do not cause it: see `fuzz.explain.evidence.masking`."""

    only_hide: bool = False
    clear: tuple[str, ...] = ()
    """The recipes of plain values that show the failure for certain; ordinary values may show it by luck only."""
    hidden: frozenset[int] = frozenset()
    """The indices of probes that pass, but fail with ordinary values."""
    shown: frozenset[int] = frozenset()
    """The indices of probes that pass, with ordinary values too."""
    cause: bool = False
    """Whether values are known to cause the failure."""


@dataclass
class Evidence:
    """All probes so far, and what was learned from them."""

    cases: list[Case] = field(default_factory=list)
    traits: list[Traits] = field(default_factory=list)
    failed: list[bool] = field(default_factory=list)
    bad: list[tuple[Case, Judgement]] = field(default_factory=list)
    probed: set[tuple[str, str]] = field(default_factory=set)
    """The target and digest of each probe, so that none counts twice, including the cases that shrinking judged."""

    masking: Masking = Masking()
    """What is known of values that hide the failure."""
    known: tuple[tuple[int, bool, frozenset[int]], Induced] | None = None
    """The learned rule, with the number of probes and the masking from which it was learned."""
    said: tuple[tuple[bool, tuple[int, ...]], tuple[list[Traits], list[bool]]] | None = None
    """The arguments and the result of the last call of `tried`, which is often repeated."""
    tests: list[int] = field(default_factory=list)
    """The indices of the probes that were drawn to refute a rule."""
    whole: bool = False
    """Whether all planned probes were run before the time was over."""
    stands: bool = False
    """Whether the rule was tested until it stood, before the time was over."""
    tested: bool = False
    """Whether the test of the rule came to its end, with any result."""
    true_of: int = 0
    """The number of cases of a search that the rule fits: the last ones that were tried."""
    drawn: int = 0
    """The number of probes before random cases of a search were added because no rule stood; 0 if one did."""
    beside: Evidence | None = None
    """Further evidence, in which too few cases fail for a rule."""

    def fresh(self, cases: Sequence[Case], trials: Trials) -> list[Case]:
        """Return the cases that were not probed yet, and mark them as probed."""
        found = {}
        for case in cases:
            if (trials.target.id, case.digest) not in self.probed:
                self.probed.add((trials.target.id, case.digest))
                found[case.digest] = case
        return list(found.values())

    def induced(self) -> Induced:
        """Return the rule of the first failure, learned from the probes so far."""
        state = len(self.failed), self.masking.only_hide, self.masking.hidden
        if self.known is None or self.known[0] != state:
            counted = self.counted()
            self.known = state, induce(*self.tried(counted), counted.index(self.failed.index(True)))
        return self.known[1]

    def counted(self) -> list[int]:
        """Return the indices of the probes that count for the rule: all whose values do not hide the failure."""
        return [place for place in range(len(self.failed)) if place not in self.masking.hidden]

    def tried(self, places: Iterable[int]) -> tuple[list[Traits], list[bool]]:
        """Return the traits of the probes at these indices, and whether each failed. Traits of values are left out if
        values only hide the failure."""
        chosen = tuple(places)
        asked = self.masking.only_hide, chosen
        if self.said is not None and self.said[0] == asked:
            return self.said[1]
        traits = [self.traits[place] for place in chosen]
        if self.masking.only_hide:
            # The order of traits is kept, since of two equivalent ones the first is stated.
            kept = [name for name in dict.fromkeys(name for each in traits for name in each) if not name.is_of_values]
            traits = [{name: each[name] for name in kept if name in each} for each in traits]
        self.said = asked, (traits, [self.failed[place] for place in chosen])
        return self.said[1]

    def counted_probes(self) -> list[Probed]:
        """Return the probes that count for the rule, with traits, case and err/budget."""
        counted, bad = self.counted(), iter(self.bad)
        ratios = [_ratio(next(bad)[1]) if failed else 0.0 for failed in self.failed]
        traits, failed = self.tried(counted)
        each = zip(counted, traits, failed, strict=True)
        return [Probed(traits, fails, self.cases[place], ratios[place]) for place, traits, fails in each]

    def add(self, case: Case, trials: Trials, judgement: Judgement, *, fails: bool) -> None:
        self.cases.append(case)
        self.traits.append(trials.traits(case))
        self.failed.append(fails)
        if fails:
            self.bad.append((case, judgement))


def _ratio(failure: Judgement) -> float:
    return failure.ratio if failure.verdict is Verdict.FAIL_NUMERIC else math.inf


def probe_all(trials: Trials, draws: Iterable[Draw], evidence: Evidence) -> None:
    if trials.family.law is None:
        probe(trials, made_for(draws, trials), evidence)
        return
    for draw in draws:
        first, more = _VARIANTS
        variants = [with_values(draw, "normal", seed) for seed in range(first + more)]
        goes = (made_for([draw, *variants[:first]], trials), made_for(variants[first:], trials))
        _probe_any(trials, goes, evidence)


def probe_each(trials: Trials, cases: Sequence[Case], evidence: Evidence) -> None:
    """Run cases of a search as probes. For a law each is run with other values too, in which two orders of a sum may
    round differently."""
    if trials.family.law is None:
        probe(trials, cases, evidence)
    else:
        probe_all(trials, map(draw_of, cases), evidence)


def says_something(case: Case, trials: Trials) -> bool:
    """Whether a case of a search serves as a probe: it is not too large or empty, and fits the kind of failure. An
    output without elements cannot have a wrong value."""
    size = case.inputs[OPS[case.op].main].layout.size
    is_whole = trials.family.name != "values" or any(each.layout.size for each in case.outputs.values())
    invalid = trials.family.name == "accepted invalid"
    return 0 < size <= _LARGEST_ROW and is_whole and (invalid or trials.target.kernel.capability.accepts(case))


def made_for(draws: Iterable[Draw], trials: Trials) -> list[Case]:
    """Return the probes that can be made and are not too large. Input that a kernel must reject tells nothing about its
    values, and valid input nothing about rejecting."""
    invalid = trials.family.name == "accepted invalid"
    cases = []
    for draw in draws:
        of_rows = _LARGEST if draw.rows > _FEW_ROWS else _LARGEST_ROW
        if draw.work <= max(trials.room, of_rows if len(OPS[draw.op].named) == 1 else trials.work):
            with contextlib.suppress(CaseError):
                case = made(draw)
                if invalid or trials.target.kernel.capability.accepts(case):
                    cases.append(case)
    return cases


def probe(trials: Trials, cases: Sequence[Case], evidence: Evidence) -> None:
    fresh = evidence.fresh(cases, trials)
    for start in range(0, len(fresh), _BATCH):
        batch = fresh[start : start + _BATCH]
        for case, judgement in telling(batch, trials):
            evidence.add(case, trials, judgement, fails=trials.family.holds(judgement))


def telling(cases: Sequence[Case], trials: Trials) -> list[tuple[Case, Judgement]]:
    """Return the cases that are evidence for this failure, with their judgements. Cases that another finding explains
    are left out, and those that fail by another bug in a shared source."""
    judged = [
        (case, judgement)
        for case, judgement in zip(cases, trials.judge(cases), strict=True)
        if judgement is not None and not trials.is_explained(case)
    ]
    others = trials.fail_within([case for case, judgement in judged if trials.family.holds(judgement)])
    return [(case, judgement) for case, judgement in judged if case.digest not in others]


def _probe_any(trials: Trials, goes: Sequence[Sequence[Case]], evidence: Evidence) -> None:
    """Run cases that differ only in their values as one probe, which fails if one of them does. Later goes are run only
    if no earlier one failed."""
    judged: list[tuple[Case, Judgement]] = []
    for cases in goes:
        judged += telling(cases, trials)
        failing = [(case, judgement) for case, judgement in judged if trials.family.holds(judgement)]
        if failing:
            evidence.add(failing[0][0], trials, failing[0][1], fails=True)
            return
    if judged:
        evidence.add(judged[0][0], trials, judged[0][1], fails=False)


def differing(target: Target, siblings: Sequence[Target]) -> list[Target]:
    """Return the other targets of the kernel. Emulated ones start slowly, so of these only the targets that differ in
    one trait are taken, and the one that differs most: together they tell the traits apart."""
    others = [other for other in siblings if other.id != target.id]
    if not target.emulated or not others:
        return others
    things = [len({*other.traits} - {*target.traits}) for other in others]
    furthest = things.index(max(things))
    return [other for place, other in enumerate(others) if things[place] <= 1 or place == furthest]


def probe_elsewhere(
    trials: Trials, others: Sequence[Target], draws: Callable[[Target], Iterable[Draw]], evidence: Evidence
) -> None:
    with WorkerPool(others, limit=trials.target.case_limit) as pool:
        pool.watch = trials.pool.watch
        for target in others:
            if not isinstance(pool.statuses[target.id], NotRun):
                probe_all(replace(trials, target=target, pool=pool, known={}), draws(target), evidence)


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
