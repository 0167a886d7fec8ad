"""Masking: whether values cause a failure, or only hide it, is found out by trying ordinary values in their place.

A huge number swamps an element that was left out, a NaN hides any difference, and so does a coarse dtype in a long row.
The exact limits depend on everything else, so a rule about the values of passing probes would be an accident of these
probes. Therefore each probe that passes against the rule is tried again with ordinary values and parameters, each
element with memory of its own, and in the finest dtype if the failure shows in that dtype and in the probe's own. If it
still passes, values cause the failure. Ordinary values may show a failure only now and then, for example if a mean near
0 is divided by a wrong number; then plain values that do show it are tried as well. A broken law is hidden in this way
too, since two orders of a sum round alike by luck: it is tried with ordinary values again and again. A stray access or
a crash shows with any values.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import Draw
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import LAST_ROW, NANS
from fuzz.core.generate.layouts import OVERLAPPING
from fuzz.core.generate.realise import draw_of
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.law import LawCheck
from fuzz.explain.evidence.evidence import Evidence, Masking, telling
from fuzz.explain.rule.inducer import learn
from fuzz.explain.rule.rule import Atom, Learned, Rule
from fuzz.explain.rule.traits import target_traits
from fuzz.explain.trial.trial import Family, Trials
from oracles.dtypes import ITEMSIZE, form
from oracles.ops import OPS

_SHOWN = 12
"""The number of failing probes that are first tried with ordinary values."""
_SWAMPED = 4
"""The number of failing probes that are tried with NaN in place of all values."""
_PURE = 0.9
"""The share of probes that must fail with ordinary values too for values not to be the cause."""
_BY_LUCK = 0.15
"""The share of probes that must fail with ordinary values for the failure not to need its own values."""
_CLEAR = ("ones", "integers", "shifted")
"""The recipes of plain values that may show a failure for certain."""
_MOST_HIDDEN = 0.5
"""The share of failures above which values that hide them are rather their cause. The values of a search hide a good
third of the failures of a wrong divisor."""
_FEWEST, _MOSTLY = 12, 0.9
"""The least number of hidden probes whose common condition is stated, and the least share of probes that the condition
must classify correctly."""
_LUCK, _SEEDS = 12, 1 << 20
"""The number of further ordinary values with which a law is tried, since luck decides whether two orders of a sum round
differently; and the distance of their seeds, which leaves room for all probes."""
NO_PARAMS: Mapping[str, float] = MappingProxyType({})
_ROUNDS, _ASKED, _EXCLUDED = 3, 40, 16
"""The number of times that the rule is learned again; the probes that are tried each time; and how many of those may
lie outside the rule."""


def swamped(evidence: Evidence) -> Iterator[Draw]:
    """Yield draws of some failing probes with NaN in place of all values, to see whether NaN hides the failure."""
    failed = [case for case, judgement in evidence.bad if _is_wrong(judgement)]
    for number, case in enumerate(failed[:: -(-len(failed) // _SWAMPED)] if failed else []):
        with contextlib.suppress(CaseError):
            yield vary.with_values(draw_of(case), NANS, number)


def _is_wrong(judgement: Judgement) -> bool:
    """Whether values are wrong or a law is broken, which other values may hide. What a stray access reads is chance."""
    return Family.of(judgement).name in ("values", "law")


def unmask(trials: Trials, evidence: Evidence) -> None:
    """Find out which probes pass against the rule only because their values hide the failure."""
    known = evidence.masking
    of_values = trials.family.key == "values" or trials.family.law is not None
    if not of_values or known.cause or not any(_is_wrong(judgement) for _, judgement in evidence.bad):
        return
    if not known.only_hide:
        if not _is_due(evidence.induced().learned):
            return
        evidence.masking = _shown(trials, evidence)
    for _ in range(_ROUNDS if evidence.masking.only_hide else 0):
        asked = _against(evidence, trials.target)[:_ASKED]
        if not asked:
            break
        cases = [evidence.cases[place] for place in asked]
        clear = evidence.masking.clear
        failing = failing_ordinarily(trials, cases, shown_in(evidence), shown_with(evidence), clear)
        known, hidden = evidence.masking, {place for place, fails in zip(asked, failing, strict=True) if fails}
        evidence.masking = replace(known, hidden=known.hidden | hidden, shown=known.shown | ({*asked} - hidden))
    hidden_by = len(evidence.masking.hidden)
    held = sum(map(evidence.induced().learned.holds, evidence.tried(evidence.counted())[0]))
    # In a coarse dtype most pairs of orders of a sum round alike.
    if trials.family.law is None and hidden_by > _MOST_HIDDEN * (held + hidden_by):
        evidence.masking = Masking(cause=True)


def shown_in(evidence: Evidence) -> frozenset[str]:
    """Return the dtypes of the first input in which the failure showed; none for a stray access, shown in any."""
    return frozenset(_dtype(case) for case, _ in evidence.bad) if _is_wrong(evidence.bad[0][1]) else frozenset()


def hiding(evidence: Evidence) -> Rule | None:
    """Return the condition that most of the values that hide the failure meet; None if no condition does."""
    hidden = sorted(evidence.masking.hidden)
    if len(hidden) < _FEWEST:
        return None
    places = [*hidden, *(place for place, fails in enumerate(evidence.failed) if fails)]
    known = set().union(*(evidence.traits[place] for place in places))
    told = {
        each for each in known if each.is_of_values and each.kind != "after NaN"
    }  # the place of a NaN is left out: a NaN hides as much at any place
    said = [{name: v for name, v in evidence.traits[place].items() if name in told} for place in places]
    hides = [place in evidence.masking.hidden for place in places]

    def agreeing(rule: Rule) -> int:
        return sum(rule.holds(traits) == hidden for traits, hidden in zip(said, hides, strict=True))

    rules = [Rule((atom,)) for atom in learn(said, hides).rule.atoms]
    best = max(rules, key=agreeing, default=Rule())
    return best if best.atoms and agreeing(best) >= _MOSTLY * len(places) else None


def shown_with(evidence: Evidence) -> tuple[Mapping[str, float], ...]:
    """Return the parameters of the clearest failure, if its op has any that scale with values, and the largest that
    failed. Some outputs show a failure with any parameter, others only with a large one: a row that is twice as large
    as it should be is normalised to the same values, except for eps."""
    clearest, _ = max(evidence.bad, key=lambda bad: bad[1].ratio)
    scaled = [each.name for each in OPS[clearest.op].parameters if each.power and each.name in clearest.params]
    values = {name: [case.params[name] for case, _ in evidence.bad if name in case.params] for name in scaled}
    largest = {name: max(values[name], key=abs) for name in scaled}
    found = [{name: clearest.params[name] for name in scaled}, largest] if scaled else []
    return tuple(params for place, params in enumerate(found) if params not in found[:place])


def _is_due(learned: Learned) -> bool:
    """Return whether masking may explain why the rule is inexact, or has a condition on what may hide the failure. A
    single such condition that fits is the cause: if it only hid another cause, that would stand beside it."""
    rules = (learned.rule, *learned.others)
    atoms = [atom for rule in rules for atom in rule.atoms]
    if len(atoms) == 1 and _is_hiding(atoms[0]):
        return not learned.sound
    return not learned.exact or any(map(_is_hiding, atoms))


def _is_hiding(atom: Atom) -> bool:
    return atom.trait.is_of_values or _may_hide(atom)


def _may_hide(atom: Atom) -> bool:
    """Return whether a condition may be about what hides the failure: a long row may need a finer dtype than a coarse
    one, and elements that share memory are equal."""
    if atom.trait.kind == "stride of 0":
        return (atom.relation == "=") == (atom.values == ("no",))
    if atom.trait.kind in ("layout", "step"):
        return atom.relation == "!=" and not {*atom.values}.isdisjoint(("0", *OVERLAPPING))
    return atom.trait.kind == "dtype" or (atom.trait.kind == "extent" and atom.relation == "<=")


def _shown(trials: Trials, evidence: Evidence) -> Masking:
    """Return whether failing probes also fail with ordinary values, and which plain values show for certain what
    ordinary ones show by luck."""
    cases = [case for case, judgement in evidence.bad if _is_wrong(judgement)]
    some = cases[:: -(-len(cases) // _SHOWN)]

    def share(*clear: str) -> float:
        found = [fails for fails in failing_ordinarily(trials, some, clear=clear) if fails is not None]
        return sum(found) / len(found) if found else 0.0

    ordinarily = share()
    if ordinarily < _BY_LUCK:
        return Masking(cause=True)
    if trials.family.law is not None:  # luck decides whether two orders differ, for any values
        return Masking(only_hide=True)
    clear = tuple(values for values in _CLEAR if share(values) >= _PURE)
    return Masking(True, clear) if clear or ordinarily >= _PURE else Masking(cause=True)


def _against(evidence: Evidence, target: Target) -> list[int]:
    """Return the indices of undecided probes on this target that pass against the rule. If the rule is inexact, probes
    that miss one condition follow, since that condition may be about what shows the failure and not about its cause."""
    learned, places = evidence.induced().learned, evidence.counted()
    rules = [Rule(tuple(a for a in rule.atoms if not _may_hide(a))) for rule in (learned.rule, *learned.others)]
    tried = zip(places, *evidence.tried(places), strict=True)
    known, own = evidence.masking.shown, target_traits(target).items()
    left = {place for place in places if place not in known and own <= evidence.traits[place].items()}
    passing = [(place, each) for place, each, bad in tried if not bad and place in left]
    wider = [Rule(tuple(a for a in rule.atoms if a is not atom)) for rule in rules for atom in rule.atoms]
    found = [place for place, each in passing if any(rule.holds(each) for rule in rules)]
    # Without the conditions that may hide the failure, the rule covers probes that never fail: they come last.
    found.sort(key=lambda place: not learned.holds(evidence.traits[place]))
    if learned.exact:
        return found
    held = {*found}
    others = (place for place, each in passing if place not in held and any(rule.holds(each) for rule in wider))
    return [*found, *islice(others, _EXCLUDED)]


def failing_ordinarily(
    trials: Trials,
    cases: Sequence[Case],
    coarse: Collection[str] = (),
    params: Sequence[Mapping[str, float]] = (),
    clear: Sequence[str] = (),
) -> list[bool | None]:
    """Return for each case whether it fails with ordinary values; None if it cannot have them.

    Each case is tried in its own dtype, or in the finest one if both are in `coarse`; with ordinary and with the given
    parameters; with a large element at the end of rows, or a large last row, which show an error at the end of a long
    one; with its own shared memory; and with the recipes `clear`. If a law changes parameters, each case keeps its
    own."""
    finest = max(trials.target.kernel.able.dtypes, key=lambda dtype: form(dtype).precision)
    found: list[bool | None] = [None] * len(cases)
    for go, tried in enumerate(_goes(trials.family.law, cases, params, clear)):
        left = [place for place, fails in enumerate(found) if not fails]
        dtypes = {p: finest if {finest, _dtype(cases[p])} <= {*coarse} else "" for p in left}
        seed = go * _SEEDS if trials.family.law is not None else 0
        made = {p: ordinary_case(cases[p], seed + p, dtype, tried) for p, dtype in dtypes.items()}
        if tried.values:
            made = {p: case and _with_values(case, tried.values, p) for p, case in made.items()}
        able = [case for case in made.values() if case and trials.target.kernel.capability.accepts(case)]
        said = {case.digest: trials.family.holds(judgement) for case, judgement in telling(able, trials)}
        for place, case in made.items():
            found[place] = found[place] if case is None or case.digest not in said else said[case.digest]
    return found


class Substitute(NamedTuple):
    """The ordinary things about a case that is tried in place of another one."""

    params: Mapping[str, float] = NO_PARAMS
    values: str = ""
    folded: bool = False
    """Whether elements share memory as in the original case."""
    own: bool = False
    """Whether the original parameters are kept, and values are made as large as these."""


def _goes(
    law: LawCheck | None, cases: Sequence[Case], params: Sequence[Mapping[str, float]], clear: Sequence[str]
) -> Iterator[Substitute]:
    lawful = next((case for case in cases if law is not None and law.law.applies(case)), None)
    if law is not None and lawful is not None and law.twin(lawful).params != lawful.params:
        # The parameter that the law changes may choose the kernel's code, so it is no matter of values.
        yield from [Substitute(own=True)] * (1 + _LUCK)
        return
    each, last = (NO_PARAMS, *params), [LAST_ROW] if _sums_rows(cases) else []
    yield from (Substitute(given) for given in each)
    yield from (Substitute(values=values) for values in ("spike", *last))
    yield Substitute(folded=True)
    yield from [Substitute()] * (_LUCK if law is not None else 0)
    yield from (Substitute(given, values) for values in clear for given in each)


def _sums_rows(cases: Sequence[Case]) -> bool:
    """Whether an output lacks a dimension of the first input other than the row: then the op sums over rows."""
    ops = ((OPS[case.op], name) for case in cases for name in case.outputs)
    return any({*op.inputs[0].axes} - {op.row, *op.operand(name).axes} for op, name in ops)


def ordinary_case(case: Case, seed: int, dtype: str, go: Substitute) -> Case | None:
    """Return the case with ordinary values, in that dtype where one is named; None where it cannot have such values."""
    with contextlib.suppress(CaseError):
        draw = draw_of(case)
        draw = vary.ordinary(draw if go.folded else storage.unfolded(draw), seed)
        params = {**go.params, **(case.params if go.own else {})}
        draw = draw.with_params(**{name: value for name, value in params.items() if name in draw.parameters})
        made = vary.made(_finer(draw, dtype) if dtype else draw)
        return _of_their_size(made) if go.own else made
    return None


def _of_their_size(case: Case) -> Case:
    """Return the case with inputs as large as its largest parameter, if that scales with the inputs and is above 1: it
    would swamp smaller inputs."""
    op = OPS[case.op]
    sizes = [abs(case.params[each.name]) ** (1 / each.power) for each in op.parameters if each.power > 0]
    power = max(map(math.log2, filter(None, sizes)), default=0.0)
    if power <= 0:
        return case
    draw = draw_of(case)
    for name in (name for name in case.inputs if op.scaling.get(name) == 1):
        draw = vary.scaled(draw, name, power)
    return vary.made(draw)


def _finer(draw: Draw, dtype: str) -> Draw:
    """Return the draw in that dtype; unchanged if two tensors that have different dtypes would then have the same one,
    since the difference may be the cause."""
    finer, op = vary.of_dtype(draw, dtype), OPS[draw.op]
    before, after = (
        {part.dtype for part in each.parts if op.operand(part.name).dtype not in ITEMSIZE} for each in (draw, finer)
    )
    return finer if len(before) == len(after) else draw


def _with_values(case: Case, values: str, seed: int) -> Case | None:
    with contextlib.suppress(CaseError):
        return vary.made(vary.with_values(draw_of(case), values, seed))
    return None


def _dtype(case: Case) -> str:
    return case.inputs[OPS[case.op].main].dtype
