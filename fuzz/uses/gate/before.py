"""What failed before a change, as a store remembers it: no fault of the change, and mended where it passes now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.adapters.target import TargetId
from fuzz.base.case import Case, CaseError
from fuzz.base.verdict import Verdict
from fuzz.findings.bucket import Bucket
from fuzz.findings.database import open_store
from fuzz.findings.database_store import DatabaseStore, restore
from fuzz.findings.database_views import view
from fuzz.findings.lookup import short_words
from fuzz.findings.state import StateError
from fuzz.findings.store import Position
from fuzz.findings.tally import Observer
from fuzz.judge.judge import Judgement
from fuzz.uses.corpus.folder import Kept, entries_of, load


@dataclass
class Before(Observer):
    """An observer of a gate. The store is only read."""

    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    """The bugs that were open or flaky."""
    nights: Mapping[str, int] = field(default_factory=dict)
    """The night in which each failed first."""
    kept: Sequence[Kept] = ()
    """Their cases."""
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The bugs of each case, by its digest: two kernels may fail in one."""
    mended: set[str] = field(default_factory=set)
    """The bugs whose case passes now."""

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        verdicts = {each.target: each.verdict for each in judgements}
        for bucket in (self.buckets[name] for name in self.names.get(case.digest, ())):
            own = [each for name, each in verdicts.items() if TargetId.parse(name).kernel == bucket.kernel]
            if verdicts.get(bucket.target) is Verdict.PASS and not any(each.is_finding for each in own):
                self.mended.add(bucket.name)

    @property
    def better(self) -> tuple[str, ...]:
        """A line for each bug that is mended, and that shows it."""
        shown = {name: short_words(path, ())[0] for name in self.mended if (path := self.buckets[name].path)}
        return tuple(
            f"{name}, since night {self.nights[name]}: passes now: kernelfuzz repro {shown[name]} --store ..."
            for name in sorted(self.mended)
        )

    def issue(self, bucket: Bucket) -> str:
        """Where a failure is known from; '' where it is not."""
        return f"the store, since night {self.nights[bucket.name]}" if bucket.name in self.nights else ""


def before(store: str, folder: Path) -> Before:
    """The open bugs of a store, whose case files are written to the folder. Raises StateError."""
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
    """The cases that can be read, and need no earlier calls."""
    found = []
    for name, bucket in buckets.items():
        try:
            if bucket.path is not None and bucket.path.exists() and bucket.alone:
                found.append((name, load(bucket.path)))
        except CaseError:  # of an op that the change has taken away
            continue
    return found
