"""One session of the gate: the corpora on every kernel, then a search of fixed length for kernels that the change
touches. And the failures that it lets pass: known ones, each with an issue and a day on which its entry expires, and,
with a store, those that failed before the change."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaign.corpus.accuracy import Accuracy, Key, Ratchet, Table
from fuzz.campaign.corpus.folder import CorpusError, Kept, entries_of, in_batches, json_files, kept_cases, load
from fuzz.campaign.search.runner import EndsSoonAfter
from fuzz.campaign.session import Session
from fuzz.core.adapters.target import Attestation, Target, TargetId
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.errors import UsageError
from fuzz.core.base.text import counted, printable
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.judge.values import truth_of
from fuzz.core.laws.registry import Entry
from fuzz.findings import document
from fuzz.findings.bucket import Bucket
from fuzz.findings.document import told
from fuzz.findings.state import StateError, short_words
from fuzz.findings.store import Position
from fuzz.findings.tally import Observer
from oracles.ops import OPS

_REQUIRED = ("kernel", "verdict", "issue", "expires")
_OPTIONAL = ("law", "target", "case")


class KnownError(UsageError):
    """A file of known failures cannot be read. The message names the entry."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


@dataclass(frozen=True)
class Known:
    """An entry for one known failure."""

    kernel: str
    verdict: str
    issue: str
    """A link to the issue."""
    expires: date
    """The first day on which the failure makes the gate fail again."""
    law: str = ""
    """The law that fails, for FAIL_LAW. Empty means any law."""
    target: str = "*"
    """A glob for the targets on which the failure is expected."""
    case: Path | None = None
    """A case file that shows the failure. The gate runs it, and so notices when the failure is fixed."""

    def covers(self, kernel: str, verdict: str, law: str, target: str) -> bool:
        """Whether the entry covers a finding."""
        named = (self.kernel, self.verdict) == (kernel, verdict) and self.law in ("", law)
        return named and fnmatchcase(target, self.target)

    def __str__(self) -> str:
        law = f" {self.law}" if self.law else ""
        return f"{self.kernel} {self.verdict}{law} ({self.issue}, until {self.expires})"


@dataclass
class KnownFailures:
    """The entries of known failures, and which of them were seen in this session."""

    entries: Sequence[Known]
    today: date
    seen: set[Known] = field(default_factory=set)

    def covering(self, kernel: str, verdict: str, law: str, target: str) -> Known | None:
        """Return the entry that covers a finding, even if it has expired; None if there is none."""
        for entry in self.entries:
            if entry.covers(kernel, verdict, law, target):
                self.seen.add(entry)
                return entry
        return None

    def complaints(self, judged: Collection[str], searched: Collection[str]) -> list[str]:
        """Return lines that fail the gate: expired entries, and entries whose failure was looked for and not seen.
        `judged` are the kernels that ran, `searched` those whose inputs were searched: only a search can tell that a
        failure without a case file is gone."""
        lines = [f"known failure expired: {entry}" for entry in self.entries if entry.expires <= self.today]
        for entry in self.entries:
            looked_for = entry.kernel in (judged if entry.case is not None else searched)
            if looked_for and entry not in self.seen and entry.expires > self.today:
                lines.append(f"known failure is gone: remove {entry}")
        return lines

    def notes(self, judged: Collection[str], searched: Collection[str]) -> list[str]:
        """Return lines about the entries that were not looked for in this session."""
        return [
            f"known failure not looked for: {entry}; name a case file that shows it"
            for entry in self.entries
            if entry not in self.seen and entry.kernel not in (judged if entry.case is not None else searched)
        ]


def load_known(path: Path) -> tuple[Known, ...]:
    """Read the entries of a TOML or JSON file with a list 'known'. Raises KnownError."""
    try:
        text = document.read_text(path)
        record = document.parsed(text) if path.suffix == ".json" else tomllib.loads(text)
    except (RecursionError, ValueError) as error:  # includes TOMLDecodeError and CaseError
        said = str(error).removeprefix(f"{path}: ")
        raise KnownError(f"--known {path}: {said}") from error
    entries = record.get("known") if isinstance(record, dict) else None
    if not isinstance(entries, list) or set(record) != {"known"}:
        raise KnownError(f"--known {path}: must hold a list called 'known' and nothing else: [[known]] in TOML")
    return tuple(_entry(entry, f"--known {path}: entry {number}", path) for number, entry in enumerate(entries, 1))


def _entry(record: object, where: str, path: Path) -> Known:
    if not isinstance(record, dict):
        raise KnownError(f"{where}: is not a table")
    missing = [name for name in _REQUIRED if name not in record]
    unknown = [name for name in record if name not in (*_REQUIRED, *_OPTIONAL)]
    if missing or unknown:
        what = f"{missing[0]} is missing" if missing else f"{unknown[0]} means nothing"
        raise KnownError(f"{where}: {what}; an entry has {', '.join(_REQUIRED)}, and may have {', '.join(_OPTIONAL)}")
    words = {name: record[name] for name in record if name not in ("expires", "case")}
    if not all(isinstance(word, str) for word in words.values()):
        raise KnownError(f"{where}: {', '.join(words)} must be text")
    words = {name: printable(word) for name, word in words.items()}
    if record["verdict"] not in {verdict.value for verdict in Verdict if verdict.is_finding}:
        raise KnownError(f"{where}: verdict: {record['verdict']!r} is not the verdict of a finding")
    case = record.get("case")
    if case is not None and not (path.parent / str(case)).is_file():
        raise KnownError(f"{where}: case: {path.parent / str(case)} does not exist")
    return Known(**words, expires=_day(record["expires"], where), case=path.parent / str(case) if case else None)


def _day(value: Any, where: str) -> date:
    if isinstance(value, datetime):
        return value.date()
    try:
        return value if isinstance(value, date) else date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise KnownError(f"{where}: expires: {told(value)} is not a day such as 2027-01-31") from error


@dataclass
class Before(Observer):
    """An observer that recognises failures from before the change. It reads the store and writes nothing to it."""

    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    """The bugs that were open or flaky, by name."""
    nights: Mapping[str, int] = field(default_factory=dict)
    """The night in which each bug failed first, by name."""
    kept: Sequence[Kept] = ()
    """The case files of these bugs."""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The names of the bugs of each case, by its digest: two kernels may fail on one case."""
    mended: set[str] = field(default_factory=set)
    """The names of the bugs whose case passes now."""

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        verdicts = {each.target: each.verdict for each in judgements}
        for bucket in (self.buckets[name] for name in self.names.get(case.digest, ())):
            own = [each for name, each in verdicts.items() if TargetId.parse(name).kernel == bucket.kernel]
            if verdicts.get(bucket.target) is Verdict.PASS and not any(each.is_finding for each in own):
                self.mended.add(bucket.name)

    @property
    def better(self) -> tuple[str, ...]:
        """A line for each bug that is fixed, with the case that shows it."""
        shown = {name: short_words(path, ())[0] for name in self.mended if (path := self.buckets[name].path)}
        return tuple(
            f"{name}, since night {self.nights[name]}: passes now: kernelfuzz repro {shown[name]} --store ..."
            for name in sorted(self.mended)
        )

    def issue(self, bucket: Bucket) -> str:
        """Return in words where a failure is known from; '' if it is not known."""
        return f"the store, since night {self.nights[bucket.name]}" if bucket.name in self.nights else ""


def before(store: str, folder: Path) -> Before:
    """Return the open bugs of a store, after writing their case files to the folder. Raises StateError."""
    from fuzz.findings.database import open_store
    from fuzz.findings.database_store import DatabaseStore, restore
    from fuzz.findings.database_views import view

    engine = open_store(store)
    try:
        bugs = {bug.signature: bug for bug in view(engine).trends.bugs if bug.status != "fixed"}
    except StateError:  # no night yet
        return Before()
    restore(engine, folder)
    known = DatabaseStore(engine, folder, Position(0, 0, 0.0, 0.0)).load()
    engine.dispose()
    buckets = {name: bucket for name, bucket in known.items() if name in bugs}
    kept, names = dict(_loaded(buckets)), dict[str, list[str]]()
    for name, each in kept.items():
        names.setdefault(entries_of(each)[-1].case.digest, []).append(name)
    return Before(buckets, {name: bugs[name].first for name in buckets}, list(kept.values()), names)


def _loaded(buckets: Mapping[str, Bucket]) -> list[tuple[str, Kept]]:
    """Return the cases that can be read and that fail without earlier calls, with the names of their buckets."""
    found = []
    for name, bucket in buckets.items():
        try:
            if bucket.path is not None and bucket.path.exists() and bucket.alone:
                found.append((name, load(bucket.path)))
        except CaseError:  # the change removed its op
            continue
    return found


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
