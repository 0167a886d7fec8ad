"""The book of findings: failures are sorted into buckets at once, and the smallest case of each bucket is saved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.judge.judge import Judgement
from fuzz.findings.bucket import Bucket, Source, base_of, by_verdict
from fuzz.findings.store import FileStore, Store, Unsaved

if TYPE_CHECKING:  # a search that finds nothing explains nothing
    from fuzz.explain.attribute.history import Recognised
    from fuzz.explain.finding import Finding
    from fuzz.explain.rule.rule import Rule
    from fuzz.findings.casefile import FoundRecord

TRIES = 3
"""The number of times that a bucket is explained if time runs out: what two more tries do not finish needs more time
than a night has for it. Chosen, not measured."""
_MOST_CAUSES = 6
"""The most buckets of one kernel and family, so that a kernel that is wrong everywhere is not reported in pieces."""
_MOST_ERRORS = 3
"""The most internal errors of one session whose cases are kept: a single cause could otherwise fill the disk."""


@dataclass
class FindingBook:
    """The buckets of a session. All failures of one kernel and family first share a bucket. When their causes are
    known, each cause has its own bucket, and failures that no cause's rule covers go to another one."""

    store: Store
    source: Callable[[], Source]
    """A function that returns the search whose cases are being run."""
    targets: Mapping[str, Target] = field(default_factory=dict)
    """The targets by id; those of an explained kernel are needed to tell its failures apart."""
    name_of: Callable[[str, Judgement], str] = by_verdict
    """A function that returns the name of the bucket for an unsorted failure of a kernel."""
    buckets: dict[str, Bucket] = field(default_factory=dict)
    """The buckets by name."""
    batch: Unsaved = field(default_factory=Unsaved)
    """The changes since the last commit to the store."""
    running_again: dict[str, str] = field(default_factory=dict)
    """The name of the bucket that each kept case belongs to, by the case's digest, while kept cases are run again."""
    trouble: str = ""
    """The reason why a case file could not be written; '' if all were. The finding itself is not lost."""
    errors: list[str] = field(default_factory=list)
    """A line for each of the first internal errors of judging. After one, the oracle's results cannot be trusted."""
    keeps: bool = True
    """Whether cases are written to disk; False if they could not be judged again later."""
    _gone: set[str] = field(default_factory=set)
    """Names that are not given again in this session, since the batch may still refer to them."""

    def add(self, kernel: str, case: Case, judgement: Judgement, everyone: Mapping[str, str]) -> Bucket:
        """Count a failing run, and return its bucket. The case is kept if it is the bucket's first or its smallest."""
        from fuzz.explain.finding import Finding, size_of

        name = self._bucket_for(kernel, case, judgement)
        bucket, finding, size = self.buckets.get(name), Finding(case, judgement, everyone), size_of(case)
        if bucket is None:
            bucket = self.buckets[name] = Bucket(name, kernel)
            self._keep(bucket, finding, self.source())
        elif bucket.alone and size < bucket.size and kernel not in bucket.also:
            self._keep(bucket, finding, self.source())
        elif bucket.finding is None and size[0] == bucket.size[0]:
            bucket.finding = finding
            self.describe(bucket)
        elif bucket.finding is None:
            bucket.glimpse = finding
        if not bucket.is_sorted:
            bucket.pile.add(finding)
        self.count(bucket, judgement.target)
        return bucket

    def count(self, bucket: Bucket, target: str, times: int = 1) -> None:
        """Count failing runs of a bucket on a target."""
        bucket.sightings[target] += times
        self.batch.sightings[bucket.name, target] += times

    @property
    def seen(self) -> list[Bucket]:
        """The buckets that have failed in this session; the store may have others."""
        return [bucket for bucket in self.buckets.values() if bucket.finding is not None]

    def kept(self) -> set[tuple[str, str]]:
        """Return the target and digest of each kept case that failed in this session."""
        return {(b.finding.target, b.finding.judgement.case) for b in self.buckets.values() if b.finding is not None}

    def note_error(self, line: str, case: Case) -> None:
        """Keep the case of an internal error, in which an outcome could not be judged, and note a line about it."""
        if len(self.errors) < _MOST_ERRORS:
            path = self.store.folder / f"internal-{case.digest[:12]}.json"
            try:
                _save(path, case)
                kept = f"the case is kept as {path}"
            except OSError as unsaved:
                kept = f"the case cannot be kept: {unsaved.strerror}"
            self.errors.append(f"{line}; {kept}; please report it")

    def commit(self) -> str:
        """Give the batch to the store. Return the reason if not everything could be saved, or ''."""
        if self.trouble:
            self.trouble = ""
            for bucket in self.buckets.values():
                if bucket.finding is not None and not bucket.written:
                    self._write(bucket)
        batch, self.batch = self.batch, Unsaved()
        return self.store.commit(batch) or self.trouble

    def rescued(self) -> Mapping[str, Path]:
        """Write the case files for which there was no room to a new folder for temporary files, which may be on another
        disk. Return the paths of those that could be written, by bucket."""
        found, lost = {}, [bucket for bucket in self.seen if not bucket.written]
        with contextlib.suppress(OSError):
            folder = Path(mkdtemp(prefix="kernelfuzz-")) if lost else Path()
            for bucket in lost:
                path = self._path(bucket, folder)
                _save(path, bucket.case, bucket.record())
                found[bucket.name] = path
        return found

    def siblings(self, bucket: Bucket) -> list[Bucket]:
        """Return the other buckets of the same kernel and family."""
        base = base_of(bucket.name)
        return [each for name, each in self.buckets.items() if base_of(name) == base and each is not bucket]

    def explain(self, bucket: Bucket, finding: Finding) -> None:
        """Replace the case of a bucket by the shrunk one with its explanation."""
        self.tell(bucket, finding, finding.core, whole=finding.is_whole)

    def tell(self, bucket: Bucket, finding: Finding, core: Rule | None, *, whole: bool) -> None:
        """Replace the case of a bucket by one that any process has explained, in full if `whole`."""
        from fuzz.explain.attribute.history import Need

        bucket.need, bucket.core, bucket.note, bucket.option = Need.NOTHING, core or bucket.core, "", ""
        bucket.tries += not whole
        self._keep(bucket, finding, bucket.source, pending=not whole and bucket.tries < TRIES)

    def note_need(self, bucket: Bucket, found: Recognised) -> None:
        """Note which earlier calls the failure of a bucket's case needs, or that it does not repeat."""
        from fuzz.explain.attribute.history import need_line

        bucket.need, bucket.note = found.need, need_line(found, bucket.case)
        needing = replace(bucket.found, history=found.history, earlier=found.earlier(bucket.case))
        self._keep(bucket, needing, bucket.source, pending=False)

    def open(self, source: Bucket, findings: Sequence[Finding]) -> Bucket:
        """Return a new bucket for findings that were counted in `source`."""
        fresh = Bucket(self._further(base_of(source.name)), source.kernel, tries=source.tries)
        self.buckets[fresh.name] = fresh
        self._keep(fresh, min(findings, key=lambda finding: finding.size), source.source)
        for finding in findings:
            fresh.pile.add(finding)
        self.move(source, fresh, findings)
        return fresh

    def move(self, source: Bucket, into: Bucket, findings: Iterable[Finding]) -> None:
        """Move the counts of these findings from one bucket to another."""
        for finding in findings:
            self.count(source, finding.target, -1)
            self.count(into, finding.target)

    def widen(self, bucket: Bucket, core: Rule | None) -> None:
        """Add a band to the rule of a bucket, so that it covers further failures."""
        if bucket.core is not None and core is not None:
            bucket.core = bucket.core.with_band(core)
            self.batch.buckets[bucket.name] = replace(bucket)

    def merge(self, source: Bucket, into: Bucket) -> None:
        """Merge one bucket into another, since their findings belong together."""
        del self.buckets[source.name]
        self._gone.add(source.name)
        into.sightings.update(source.sightings)
        self.batch.merged.append((source.name, into.name))
        self._release(source.path)

    def join(self, guest: Bucket, home: Bucket, verdicts: Mapping[str, str]) -> None:
        """Merge a kernel's bucket into another kernel's, since the cause is in a source that both share.

        `verdicts` are those on the other bucket's case, by target.
        """
        self.merge(guest, home)
        self.share(home, guest.also | {guest.kernel}, verdicts)

    def share(self, bucket: Bucket, others: frozenset[str], verdicts: Mapping[str, str]) -> None:
        """Note that the cause of a bucket is in a source that other kernels share."""
        from fuzz.explain.causes import shared_cause

        kernels = {target.kernel.name: target.kernel for target in self.targets.values()}
        bucket.also |= others
        cause = shared_cause([kernels[name] for name in (bucket.kernel, *sorted(bucket.also)) if name in kernels])
        found = replace(bucket.found, verdicts=verdicts).caused_by(cause)
        self._keep(bucket, found, bucket.source, pending=bucket.pending)

    def _bucket_for(self, kernel: str, case: Case, judgement: Judgement) -> str:
        """Return the name of the bucket for a failing run: the one that a kept case belongs to, else one whose rule
        covers the case, else one that is not sorted yet, else one without a rule, which cannot be told apart; else a
        new one."""
        base, kept = self.name_of(kernel, judgement), self.running_again.get(case.digest, "")
        if kept and base_of(kept) == base:
            return kept
        mine = {name: bucket for name, bucket in self.buckets.items() if base_of(name) == base}
        shared = {
            name: bucket
            for name, bucket in self.buckets.items()
            if kernel in bucket.also and base_of(name) == self.name_of(bucket.kernel, judgement)
        }
        told = self._told({**mine, **shared}, case, judgement)
        if told is not None:
            return told
        waiting = [name for name, bucket in mine.items() if not bucket.is_sorted]
        vague = [name for name, bucket in mine.items() if bucket.is_sorted and bucket.core is None and bucket.alone]
        if waiting or vague:
            return [*waiting, *vague][0]
        return next(iter(mine)) if len(mine) >= _MOST_CAUSES else self._further(base)

    def _told(self, buckets: Mapping[str, Bucket], case: Case, judgement: Judgement) -> str | None:
        """Return the name of the first bucket whose rule covers the case; None if there is none."""
        from fuzz.explain.trial.trial import Family, traits_for

        if all(bucket.core is None for bucket in buckets.values()):
            return None
        traits = traits_for(case, self.targets[judgement.target], Family.of(judgement).law)
        return next((name for name, bucket in buckets.items() if bucket.core and bucket.core.holds(traits)), None)

    def _further(self, base: str) -> str:
        """Return a name that no bucket has."""
        names = [base, *(f"{base}+{number}" for number in range(2, len(self.buckets) + len(self._gone) + 3))]
        return next(name for name in names if name not in self.buckets and name not in self._gone)

    def _keep(self, bucket: Bucket, finding: Finding, source: Source, *, pending: bool = True) -> None:
        """Replace the finding of a bucket."""
        bucket.finding, bucket.target, bucket.source, bucket.pending = finding, finding.target, source, pending
        bucket.size = finding.size if finding.diagnosis is None else (finding.size[0], 0)
        self._write(bucket)

    def describe(self, bucket: Bucket) -> None:
        """Assemble the explanation of the bucket's finding."""
        from fuzz.explain.facts import explanation_of

        told = explanation_of(bucket.found, self.targets.get(bucket.found.target))
        bucket.explanation = replace(told, kernel=bucket.kernel)

    def _path(self, bucket: Bucket, folder: Path) -> Path:
        number = bucket.name.removeprefix(base_of(bucket.name))
        return folder / f"{self.name_of(bucket.kernel, bucket.judgement)}{number}-{bucket.case.digest[:12]}.json"

    def _write(self, bucket: Bucket) -> None:
        """Write the case file. If the disk is full, the file before stays, and so does the bucket."""
        before = bucket.path
        self.describe(bucket)
        if not self.keeps:
            return
        path = self._path(bucket, self.store.folder)
        try:
            _save(path, bucket.case, bucket.record())
            bucket.path, bucket.written = path, True
        except OSError as error:
            self.trouble, bucket.written = f"{path}: cannot be written: {error.strerror}", False
        if before != bucket.path:
            self._release(before)
        self.batch.buckets[bucket.name] = replace(bucket)

    def _release(self, path: Path | None) -> None:
        if path is not None and all(bucket.path != path for bucket in self.buckets.values()):
            self.store.release(path, self.batch)


def book_in(folder: Path, seed: int) -> FindingBook:
    """Return the book of a single run, whose findings are kept as case files in a folder."""
    return FindingBook(FileStore(folder), lambda: Source(seed))


def _save(path: Path, case: Case, found: FoundRecord | None = None) -> None:
    from fuzz.findings.casefile import save

    save(path, case, found)
