"""The examiner, which runs batches of cases on a pool, judges them, and returns one record for each part of a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from fuzz.core.adapters.target import Target, TargetId
from fuzz.core.base.case import Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.outcome import Outcome
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Batch, Pool
from fuzz.core.judge.batch import asked_of, settle
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.judge.trouble import error_words, judged
from fuzz.core.laws.registry import Entry
from fuzz.findings.tally import OTHER, SAME, Decided, Sighting, Tally, note_open
from oracles import escalation


@dataclass
class Examined:
    """The results of one part of a batch."""

    tally: Tally
    judgements: list[Sequence[Judgement]] = field(default_factory=list)
    """The judgements of each entry, in order, up to the entry at which judging stopped."""
    sightings: list[Sighting] = field(default_factory=list)
    errors: list[tuple[str, Case]] = field(default_factory=list)
    """Internal errors: the message, and the case that could not be judged."""


class Examiner:
    """Runs entries on the targets of a pool, and judges the outcomes."""

    def __init__(
        self,
        pool: Pool,
        targets: Iterable[Target],
        *,
        accuracy: bool = False,
        axes: bool = False,
        decides: bool = True,
        told: Callable[[EntryJudge], None] = lambda judge: None,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """With `accuracy`, tallies keep the worst passing runs by row length; with `axes`, what each axis had. Without
        `decides`, they do not count for which outputs a wrong value could have been noticed. `told` is called
        with the judge of each entry. Once `ended` is true, a part is judged only up to its first entry that ran."""
        self.pool = pool
        self.targets: Mapping[str, Target] = {target.id: target for target in targets}
        self._several = len({target.kernel.name for target in self.targets.values()}) > 1
        self._decided: dict[str, Decided] = {name: {} for name in self.targets if decides}
        """The outputs that were checked at a value where an error would show. Examining them again would take time."""
        self._accuracy, self._axes = accuracy, axes
        self._firsts = _firsts([each for each in self.targets.values() if each.configuration.settings])
        """For each further configuration of a kernel, the target of its first one there."""
        self._told, self._ended = told, ended

    def submit(self, entries: Sequence[Entry], without: Collection[str] = ()) -> Batch:
        """Send the entries to all targets of this examiner that accept them, except those in `without`. A twin belongs
        in one batch with its case."""
        others = self.pool.statuses.keys() - self.targets.keys()
        return self.pool.submit([entry.case for entry in entries], {*without, *others} if others else without)

    def examined(self, parts: Sequence[Sequence[Entry]], batch: Batch) -> list[Examined]:
        """Wait for the outcomes and judge them. Return the results of each part of the batch."""
        outcomes, judges = iter(batch.outcomes()), list[list[EntryJudge]]()
        for entries in parts:
            judges.append(list(self._judges(entries, [next(outcomes) for _ in entries])))
        trouble = self._settled([judge for part in judges for judge in part])
        found = [self._examined(part) for part in judges]
        if trouble:
            found[0].errors += trouble
        return found

    def _settled(self, judges: Sequence[EntryJudge]) -> list[tuple[str, Case]]:
        """Let the oracles settle the outputs that certainly pass. Return internal errors, which change no verdict."""
        try:
            settle(asked_of(judges, self.targets))
        except Exception as error:
            return [(f"internal error: {error_words(error)}", judges[0].entry.case)]
        return []

    def _examined(self, judges: Sequence[EntryJudge]) -> Examined:
        found = Examined(Tally(accuracy={} if self._accuracy else None, notes_axes=self._axes))
        for judge in judges:
            judgements = [self._judgement(judge, self.targets[target], found) for target in judge.outcomes]
            if escalation.over() and any(each.worst is not None and each.worst.late for each in judgements):
                break  # the time was over before the precise tier could decide
            self._note(judge, judgements, found)
            self._told(judge)
            if judgements and self._ended():
                break
        return found

    def _judges(self, entries: Sequence[Entry], outcomes: Sequence[Mapping[str, Outcome]]) -> Iterator[EntryJudge]:
        before: EntryJudge | None = None
        for entry, ran in zip(entries, outcomes, strict=True):
            before = EntryJudge(entry, ran, before)
            yield before

    def _judgement(self, judge: EntryJudge, target: Target, found: Examined) -> Judgement:
        """Return the judgement of one target's outcome. An internal error is noted in `found`, and other targets are
        judged all the same. A kernel that cannot be called as declared is reported like one that cannot be loaded; if
        it is the only one, UsageError is raised."""
        judgement, trouble = judged(judge, target)
        if judgement.is_misuse and not self._several:
            raise UsageError(f"{target.id}: {judgement.reason}")
        if trouble:
            found.errors.append((trouble, judge.entry.case))
        return judgement

    def _note(self, judge: EntryJudge, judgements: Sequence[Judgement], found: Examined) -> None:
        entry = judge.entry
        found.judgements.append(judgements)
        found.tally.count(entry.case, judgements, self.targets)
        for each in judgements:
            decided = self._decided.get(each.target) if each.worst is not None else None
            dtype = next(iter(entry.case.inputs.values())).dtype
            if decided is not None and any(decided.get((output, dtype)) != 0 for output in entry.case.outputs):
                self._note_decided(judge, each.target, found)
        passed = {each.target for each in judgements if each.verdict is Verdict.PASS}
        for name, first in self._firsts.items():
            if {name, first} <= passed:
                same = judge.outcomes[name].outputs == judge.outcomes[first].outputs
                found.tally.targets[name].alike.update([SAME if same else OTHER])
        if entry.check is not None and judge.checked:
            found.tally.laws[entry.check.name] += len(judge.checked)
        failing = [each for each in judgements if each.verdict is not Verdict.PASS and each.verdict.is_finding]
        if failing:
            verdicts = {judgement.target: judgement.verdict.value for judgement in judgements}
            for case, of_case in groupby(failing, judge.evidence):
                found.sightings.append(Sighting(case, list(of_case), verdicts))

    def _note_decided(self, judge: EntryJudge, target: str, found: Examined) -> None:
        try:
            decided = judge.decided(self.targets[target])
        except Exception as error:
            found.errors.append((f"internal error: {error_words(error)}", judge.entry.case))
            return
        dtype = next(iter(judge.entry.case.inputs.values())).dtype
        open_ = {(output, dtype): 0 if seen else 1 for output, seen in decided.items()}
        note_open(self._decided[target], open_)
        note_open(found.tally.targets[target].decided, open_)


def _firsts(targets: Sequence[Target]) -> Mapping[str, str]:
    if not targets:
        return {}
    from fuzz.core.adapters.configured import unconfigured

    found = dict[TargetId, str]()
    first = {each.id: found.setdefault(unconfigured(each), each.id) for each in targets}
    return {name: one for name, one in first.items() if name != one}
