"""One session of the gate: the corpora on every kernel, then a search of fixed length for kernels that the change
touches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fuzz.campaign.corpus.accuracy import Accuracy, Key, Ratchet, Table
from fuzz.campaign.corpus.folder import CorpusError, Kept, entries_of, in_batches, json_files, kept_cases, load
from fuzz.campaign.gate.known import Before, Known, KnownFailures
from fuzz.campaign.search.groups import EndsSoonAfter
from fuzz.campaign.session import Session
from fuzz.core.adapters.target import Attestation, Target
from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.judge.values import truth_of
from fuzz.core.laws.registry import Entry
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Observer
from oracles.ops import OPS

SEED = 0
"""The seed of every gate's search, so that the same commit gets the same cases."""
AFTER_FINDING = 200
"""The number of cases that a search goes on for after its first finding, so that a failing gate ends soon."""

SLOW_CASES = 256
"""About how many cases of a search slow targets run: an interpreter would otherwise take most of a gate's time."""

_RUN = ("regressions", "historical")
"""The folders of a corpus that a gate runs."""
_KEPT = ("trophies", "accuracy.json")
"""Other parts of a corpus. Trophies belong to kernels of other packs, and a night finds them again."""


def slow_every(max_cases: int) -> int:
    """Return how many turns of a search of `max_cases` cases there are for each turn of a slow target."""
    return max(1, math.ceil(max_cases / SLOW_CASES))


@dataclass(frozen=True)
class Phase:
    """A named part of what a gate runs. A group is a case, and its twin if there is one."""

    name: str
    groups: tuple[list[Entry], ...]


def phases(corpora: Path | None, known: Sequence[Path]) -> tuple[Phase, ...]:
    """Return the phases: known failures and own findings first, since they are the likeliest to fail; then documented
    bugs. Raises CorpusError if there is no such folder."""
    failures = Phase("known failures", _groups(load(path) for path in known))
    if corpora is None:
        return tuple(_without_repeats([failures]))
    if not corpora.is_dir():
        made = f"kernelfuzz corpus add CASE --corpora {corpora} makes it"
        raise CorpusError(f"--corpora {corpora}: no such folder; {made}")
    kept = [Phase(name, _groups(kept_cases(corpora / name)) if (corpora / name).is_dir() else ()) for name in _RUN]
    return tuple(_without_repeats([failures, *kept]))


def not_run_files(corpora: Path | None) -> list[str]:
    """Return a line about the files of a corpus that no gate runs, if there are any."""
    if corpora is None:
        return []
    places = {path: path.relative_to(corpora).parts[0] for path in json_files(corpora)}
    aside = [path for path, place in places.items() if place not in (*_RUN, *_KEPT)]
    if not aside:
        return []
    more = f" and {len(aside) - 1} more" if len(aside) > 1 else ""
    folders = ", ".join(f"{name}/" for name in _RUN)
    return [f"not run: {aside[0]}{more}: a gate runs {folders} only; see kernelfuzz corpus add"]


def _groups(kept: Iterable[Kept]) -> tuple[list[Entry], ...]:
    return tuple(entries_of(each) for each in kept)


def _without_repeats(parts: Iterable[Phase]) -> Iterable[Phase]:
    """Yield the phases without repeats: a case may be both a finding and documented. It runs once for each law."""
    seen: set[tuple[str, ...]] = set()
    for part in parts:
        kept = []
        for group in part.groups:
            key = tuple(entry.case.digest + (entry.check.name if entry.check else "") for entry in group)
            if key not in seen:
                seen.add(key)
                kept.append(group)
        yield replace(part, groups=tuple(kept))


@dataclass
class WorstCases(Observer):
    """An observer that keeps the case of the worst passing element for each kernel, target and dtype."""

    targets: Mapping[str, Target]
    found: dict[Key, tuple[float, Case]] = field(default_factory=dict)

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        dtype = case.inputs[OPS[case.op].main].dtype
        for judgement in judgements:
            if judgement.verdict is Verdict.PASS and judgement.worst is not None:
                key = (self.targets[judgement.target].kernel.name, judgement.target, dtype)
                if key not in self.found or judgement.ratio > self.found[key][0]:
                    self.found[key] = judgement.ratio, case


@dataclass
class RanCases(Observer):
    """An observer that notes which cases ran on at least one target, by digest and law."""

    ran: set[tuple[str, str]] = field(default_factory=set)

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        for judgement in judgements:
            if judgement.verdict is not Verdict.NOT_RUN:
                self.ran.add((case.digest, judgement.law.name if judgement.law else ""))


@dataclass
class GateSession:
    """A gate that runs phases in a session; `watch` holds the failures that are known."""

    session: Session
    watch: KnownFailures
    reasons: Mapping[str, str] = field(default_factory=dict)
    """For each kernel that the change touches, the file that touches it."""
    counts: dict[str, int] = field(default_factory=dict)
    """The number of cases of each phase."""
    fitting: dict[str, RanCases] = field(default_factory=dict)
    """The kept cases that ran on at least one target, by phase: only a few may fit the kernels of a pack."""
    searched: set[str] = field(default_factory=set)
    """The kernels whose search was completed."""
    notes: list[str] = field(default_factory=list)
    """Lines about what was left out, with the reason."""
    before: Before = field(default_factory=Before)
    """The failures from before the change."""
    failing: list[str] = field(default_factory=list)
    """The names of the phases that showed an unknown failure."""
    cut: bool = False
    """Whether the unchanged kernels were not run, because changed ones fail."""

    def __post_init__(self) -> None:
        self.targets, self.tally, self.book = self.session.targets, self.session.tally, self.session.book

    def run(self, phases: Sequence[Phase]) -> Ratchet:
        """Run the corpora on the kernels that the change touches, and search them; if nothing failed, run the corpora
        on all other kernels too. A failing gate ends soon in this order. Return the measured accuracy."""
        touched = [target for target in self.targets if target.kernel.name in self.reasons]
        first = touched or self.targets
        rest = [target for target in self.targets if target not in first]
        measured = self.run_phases(first, phases)
        if touched and self.unknown:
            self.notes.append(f"not searched: cases fail already ({', '.join(self.failing)})")
        elif touched and not self.session.interruption.wanted:
            self.search(touched)
        self.cut = bool(rest and self.unknown)
        if self.cut:
            targets = counted(len(rest), "target")
            self.notes.append(f"not run on the {targets} of kernels that were not changed: it fails already")
        elif rest and not self.session.interruption.wanted:
            measured |= self.run_phases(rest, phases)
        return Ratchet(measured, _measured_on(self.session.pool, measured))

    def run_phases(self, targets: Sequence[Target], phases: Sequence[Phase]) -> dict[Key, Accuracy]:
        """Run the phases one after the other on these targets. Return the accuracy of each kernel on them."""
        worst = WorstCases({target.id: target for target in self.targets})
        runner = self.session.runner(targets, search=False)
        others = frozenset(target.id for target in self.targets) - {target.id for target in targets}
        runner.skipped = lambda: others
        for phase in phases:
            runner.observers = [
                *self.session.observers,
                worst,
                self.before,
                self.fitting.setdefault(phase.name, RanCases()),
            ]
            before, known = self.tally.cases, len(self.unknown)
            runner.run_entries(in_batches(phase.groups))
            self.counts[phase.name] = self.tally.cases - before
            self.failing += [phase.name] if len(self.unknown) > known else []
        return _measured(self.session.pool, worst)

    def search(self, targets: Sequence[Target]) -> None:
        """Search the inputs of these targets. An unknown finding ends the search soon."""
        runner = self.session.runner(targets)
        runner.enough = EndsSoonAfter(lambda tally: self.unknown, AFTER_FINDING)
        ops = sorted({target.kernel.op for target in targets})
        before = self.tally.cases
        for op in ops:
            runner.run(op, SEED, share=1 / len(ops))
        self.counts["search"] = self.tally.cases - before
        if not self.unknown and not self.session.interruption.wanted:
            self.searched = {target.kernel.name for target in targets}

    @property
    def counted(self) -> Mapping[str, tuple[int, int]]:
        """By phase, the number of cases that ran on at least one target, and the number of all its cases."""
        ran = {name: len(each.ran) for name, each in self.fitting.items()}
        return {name: (ran.get(name, cases), cases) for name, cases in self.counts.items()}

    def ran_nowhere(self) -> list[str]:
        """Return a line for each changed kernel that was not judged on any case."""
        judged = self.judged_kernels
        why: dict[str, str] = {}
        for line in self.tally.targets.values():
            if line.not_run_reason:
                why.setdefault(line.kernel, line.not_run_reason)
        return [
            f"{name} was changed ({reason}) and ran nowhere: {why.get(name, 'no case fits it')}"
            for name, reason in self.reasons.items()
            if name not in judged
        ]

    def note_unchanged(self, base: str | None) -> None:
        """Note for each target of an unchanged kernel that judged nothing why this is so."""
        why = "what was changed fails already" if self.cut else f"not changed since {base}, and no kept case fits it"
        for target in self.targets if base is not None else ():
            line = self.tally.targets[target.id]
            if target.kernel.name not in self.reasons and not line.judged:
                line.not_run_reason = line.not_run_reason or why

    def takes_any(self, phases: Sequence[Phase]) -> bool:
        """Whether at least one case of the phases would be sent to some target."""
        capabilities = {target.kernel.capability for target in self.targets}
        cases = (entry.case for phase in phases for group in phase.groups for entry in group)
        return any(capability.is_dispatched(case) for case in cases for capability in capabilities)

    @property
    def unknown(self) -> list[Bucket]:
        """The findings that no entry covers and that did not fail before the change."""
        return [bucket for bucket in self.book.seen if self.known(bucket) is None and not self.before.issue(bucket)]

    def known(self, bucket: Bucket) -> Known | None:
        """Return the entry that covers a bucket on all targets that it was seen on; None if one is not covered."""
        broken = bucket.judgement.broken_law_name
        entries = [
            self.watch.covering(bucket.kernel, bucket.verdict, broken, target) for target in sorted(bucket.targets)
        ]
        return entries[0] if all(entry is not None for entry in entries) else None

    def issue(self, bucket: Bucket) -> str:
        """Return the issue of a failure, or in words where it is known from; '' if it is not known."""
        entry = self.known(bucket)
        return self.before.issue(bucket) if entry is None else entry.issue

    @property
    def judged_kernels(self) -> set[str]:
        """The kernels that were judged on at least one case."""
        return {line.kernel for line in self.tally.targets.values() if line.judged}


def _measured(pool: Pool, worst: WorstCases) -> dict[Key, Accuracy]:
    """Run the worst cases again, and return the errors of their worst elements in err/budget and in ulp."""
    cases = {case.digest: case for _, case in worst.found.values()}
    judges: dict[str, EntryJudge] = {}
    for batch in in_batches([Entry(case)] for case in cases.values()):
        for entry, outcomes in zip(batch, pool.submit([entry.case for entry in batch]).outcomes(), strict=True):
            judges[entry.case.digest] = EntryJudge(entry, outcomes)
    return {
        key: Accuracy(ratio, _ulp(judges[case.digest], worst.targets[key[1]]), case.digest[:12])
        for key, (ratio, case) in sorted(worst.found.items(), key=lambda item: item[0])
    }


def _measured_on(pool: Pool, measured: Table) -> dict[str, str]:
    """Return the processor or device on which each target was measured."""
    statuses = {target: pool.statuses[target] for _, target, _ in measured}
    return {target: status.surroundings for target, status in statuses.items() if isinstance(status, Attestation)}


def _ulp(judge: EntryJudge, target: Target) -> float:
    """Return the error of the worst element in ulp; 0 if it cannot be computed."""
    check, case = judge.judge(target).worst, judge.entry.case
    if check is None or check.worst_index is None:
        return 0.0
    output = case.outputs[check.output]
    outcome = judge.outcomes[target.id]
    got = from_bits(outcome.outputs[check.output], output.dtype, output.layout.shape)
    with np.errstate(all="ignore"):
        truth = truth_of(case, check, outcome)
        off = truth.ulps_off(target.contract, check.output, check.worst_index, got[check.worst_index])
    return abs(off) if math.isfinite(off) else 0.0
