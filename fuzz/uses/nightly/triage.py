"""Sorting, shrinking and explaining what a night has found, within its share of the night."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random

from fuzz.adapters.target import Target
from fuzz.base.case import Case, CaseError
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import WorkerPool
from fuzz.findings import casefile
from fuzz.judge.judge import Judgement
from fuzz.triage.examination import SECONDS, Allowance, Explained, examine
from fuzz.triage.family import Family
from fuzz.triage.fresh import FreshProcess, replayed
from fuzz.triage.history import Need, Recognised, need_line, recognise
from fuzz.triage.rule import Rule, Traits
from fuzz.triage.shared import breadth, fails_on, one_fault
from fuzz.triage.sorting import Cause, Sighting, causes_of
from fuzz.triage.trial import OutOfTimeError, traits_for
from fuzz.uses.corpus.folder import Kept as KeptFile
from fuzz.uses.nightly.book import NightBook
from fuzz.uses.nightly.kept import Kept
from fuzz.uses.nightly.recorder import Place
from fuzz.uses.nightly.schedule import TRIAGE_SHARE
from fuzz.uses.nightly.stopping import Stopping
from fuzz.uses.search.calls import Calls

_LEAST_S = 2.0
"""with less than that nothing is begun."""
_ONE_CAUSE = 0.75
"""of the time that is left for a bucket, at most, is for one of its causes."""
_TRYING_ALONE = 0.3
"""of the time that is left for a bucket, at most, is for trying its findings alone, where the one that is kept needs
earlier calls: another bug may be among them."""


@dataclass
class NightTriage:
    """Examines every bucket once, and again when a smaller case is found."""

    pool: WorkerPool
    targets: Sequence[Target]
    book: NightBook
    place: Place
    stopping: Stopping
    limit_s: float
    """of the whole night."""

    def __post_init__(self) -> None:
        self.calls = Calls(self._waiting)
        self._ends = 0.0
        self._cut_short = False
        self._stateful = False
        """another failure of the kernel and family that is examined needs earlier calls."""

    def examine_one(self) -> bool:
        """Settle one of the buckets that are waiting; False where there is none, or no time for it."""
        names = [name for name, kept in self.book.kept.items() if kept.pending and kept.path is not None]
        if not names:
            return False
        left = min(TRIAGE_SHARE * self.limit_s - self.place.triage_s, TRIAGE_SHARE * self.stopping.left)
        seconds = min(SECONDS, left / len(names))
        if seconds < _LEAST_S:
            return False
        began = time.monotonic()
        self._ends = began + seconds
        kept = self.book.kept[names[0]]
        kept.pending = False  # whatever comes of it: what cannot be settled is not tried over and over
        with contextlib.suppress(OutOfTimeError):
            self._examine(names[0], kept)
        self.place.triage_s += time.monotonic() - began
        return True

    def replay_history(self, file: KeptFile) -> Judgement | None:
        """What is said of a kept case after its calls, in a new process; None where its target does not run."""
        found = file.found
        if found is None or found.target not in self.book.targets:
            return None
        target = self.book.targets[found.target]
        with WorkerPool([target], bounded=False) as pool:
            seen = replayed(pool, {target.id: target}, file.case, found.law, found.history).get(target.id)
        return seen.judgement if seen is not None else None

    def _waiting(self) -> set[tuple[str, str]]:
        """Findings whose earlier calls may be asked for."""
        found = [kept.judgement for kept in self.book.kept.values() if kept.pending and kept.judgement is not None]
        return {(judgement.target, judgement.case) for judgement in found}

    def _over(self) -> bool:
        return self.stopping.wanted or time.monotonic() > self._ends

    def _examine(self, name: str, kept: Kept) -> None:
        if kept.case is None or kept.judgement is None:
            self._recall(kept)
        if kept.case is None or kept.judgement is None or kept.judgement.target not in self.book.targets:
            return
        if not kept.examined:
            found = self._recognised(kept.case, kept.judgement)
            if found.need is not Need.NOTHING:
                self._settle_history(name, kept, found)
                return
        self._sort(name, kept, Sighting(kept.case, kept.judgement))

    def _recognised(self, case: Case, judgement: Judgement) -> Recognised:
        """What the failure needs. Raises OutOfTimeError. A timeout was already seen alone."""
        if judgement.verdict is Verdict.TIMEOUT:
            return Recognised(Need.NOTHING)
        target = self.book.targets[judgement.target]
        with WorkerPool([target], bounded=False) as pool:
            trial = FreshProcess(pool, target, case, judgement)

            def fails(history: Sequence[Case]) -> bool:
                if self._over():
                    raise OutOfTimeError
                return trial.fails(history)

            return recognise(fails, case, self.calls.before(judgement))

    def _settle_history(self, name: str, kept: Kept, found: Recognised) -> None:
        """One bucket for all that needs history; what fails by itself as well goes to a bucket of its own."""
        assert kept.case is not None
        alone = self._alone(kept)
        if alone:
            self.book.open(name, alone)
        same = [other for other, sibling in self.book.siblings(name).items() if not sibling.alone]
        if same:
            self.book.merge(name, same[0])
        else:
            self.book.settle_history(name, found, need_line(found, kept.case))

    def _alone(self, kept: Kept) -> list[Sighting]:
        """Of the findings beside the one that is kept, those that fail by themselves, as far as there is time."""
        others = [each for each in kept.pile.sightings if each.case is not kept.case]
        Random(0).shuffle(others)  # by size, time would be over before a bug of long rows has its turn
        until = time.monotonic() + _TRYING_ALONE * (self._ends - time.monotonic())
        found = []
        with ExitStack() as stack:
            pools: dict[str, WorkerPool] = {}
            for each in others:
                if self._over() or time.monotonic() > until:
                    break
                target = self.book.targets[each.judgement.target]
                if target.id not in pools:
                    pools[target.id] = stack.enter_context(WorkerPool([target], bounded=False))
                if FreshProcess(pools[target.id], target, each.case, each.judgement).fails():
                    found.append(each)
        return found

    def _sort(self, name: str, kept: Kept, smallest: Sighting) -> None:
        """A bucket for each cause of the findings that wait in this one."""
        siblings = {other: each for other, each in self.book.siblings(name).items() if each.core is not None}
        self._stateful = any(not each.alone for each in self.book.siblings(name).values())
        rules = [each.core for each in siblings.values() if each.core is not None]
        sightings = [smallest, *(each for each in kept.pile.sightings if each.case.digest != smallest.case.digest)]
        causes = causes_of(sightings, self.book.targets, lambda each, known: self._explained(each, [*rules, *known]))
        if not causes:
            return
        if not causes[0].explained.whole:
            self.book.settle(name, causes[0].explained)
            return
        before = set(self.book.kept)
        kept.pile.sightings.clear()
        later = self._unexplained(causes[0]) if self._cut_short else []
        home = self._settle(name, causes[0], siblings)
        for cause in causes[1:]:
            same = _same(siblings, cause)
            if same:
                self.book.move(home, same[0], cause.sightings)
            else:
                self.book.settle(self.book.open(home, cause.sightings), cause.explained)
        if later:
            self.book.open(home, later)
        for settled in [each for each in self.book.kept if each == home or each not in before]:
            self._join(settled)

    def _settle(self, name: str, cause: Cause, siblings: dict[str, Kept]) -> str:
        """The first cause stays where its findings are, unless it is one that is known. Returns where they are then."""
        kept = self.book.kept[name]
        same = _same(siblings, cause)
        if cause.rule is None and not kept.examined:
            same = list(siblings)
        if same and kept.core is None:
            self.book.merge(name, same[0])
            return same[0]
        self.book.settle(name, cause.explained)
        return name

    def _join(self, name: str) -> None:
        """Put a bucket and one of another kernel into one, where both are one fault in a source that they share."""
        mine = self.book.kept[name]
        for other, theirs in self.book.kept.items():
            first, second = sorted(((name, mine), (other, theirs)), key=lambda each: breadth(each[1].core))
            verdicts = self._shared(first[1], second[1])
            if verdicts is not None:
                self.book.join(second[0], first[0], verdicts)
                return

    def _shared(self, one: Kept, other: Kept) -> dict[str, str] | None:
        """What is said of the first one's case, by target, where both are one fault."""
        by_id, verdicts = self.book.targets, []
        if one.target not in by_id or other.target not in by_id:
            return None
        kernels = by_id[one.target].kernel, by_id[other.target].kernel
        if not one_fault(*kernels, (one.core, other.core)):
            return None
        for kept, kernel in ((one, kernels[1]), (other, kernels[0])):
            if kept.case is None or kept.judgement is None:
                self._recall(kept)
            if kept.case is None or kept.judgement is None:
                return None
            seen = replayed(self.pool, by_id, kept.case, kept.judgement.broken_law)
            verdicts.append({target: each.judgement.verdict.value for target, each in seen.items()})
            if not fails_on(kernel, verdicts[-1], by_id):
                return None
        assert one.judgement is not None
        assert other.judgement is not None
        alike = Family.of(one.judgement).key == Family.of(other.judgement).key
        return verdicts[0] if alike else None

    def _unexplained(self, cause: Cause) -> list[Sighting]:
        """What was put to a cause only because there was no time to look at it."""
        rule, targets = cause.rule, self.book.targets
        if rule is None:
            return []

        def traits(each: Sighting) -> Traits:
            return traits_for(each.case, targets[each.judgement.target], Family.of(each.judgement).law)

        return [each for each in cause.sightings if not rule.holds(traits(each))]

    def _explained(self, sighting: Sighting, known: Sequence[Rule]) -> Explained | None:
        """None where there is no time; what was cut short by a stop is done again after --resume."""
        seconds = (self._ends - time.monotonic()) * _ONE_CAUSE
        self._cut_short = seconds < _LEAST_S / 2 or self.stopping.wanted
        if self._cut_short:
            return None
        allowance = Allowance(seconds, stop=lambda: self.stopping.wanted)
        explained = examine(
            self.pool, self.targets, sighting.case, sighting.judgement, allowance, known, fresh=self._stateful
        )
        if not explained.whole:  # a rule that was not learned to its end tells nothing apart
            explained = replace(explained, explanation=replace(explained.explanation, core=None))
        return explained if explained.whole or not self.stopping.wanted else None

    def _recall(self, kept: Kept) -> None:
        """The case and the judgement of a finding of an earlier session, where it still fails."""
        assert kept.path is not None
        try:
            case, found = casefile.load(kept.path)
        except CaseError:
            return
        by_id = self.book.targets
        if found is None or found.target not in by_id or found.history:
            return
        seen = replayed(self.pool, by_id, case, found.law).get(found.target)
        if seen is not None and seen.judgement.verdict.is_finding:
            kept.case, kept.judgement, kept.seed = case, seen.judgement, found.run_seed


def _same(siblings: dict[str, Kept], cause: Cause) -> list[str]:
    """The buckets of which the rule is stated alike."""
    return [name for name, kept in siblings.items() if cause.rule is not None and str(kept.core) == str(cause.rule)]
