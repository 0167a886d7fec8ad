"""The book of findings: failures go into buckets as they come, and each bucket's smallest case goes to disk at once."""

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
from fuzz.findings.store import FileStore, Store, Unsaved, evidence_path

if TYPE_CHECKING:  # a search that finds nothing explains nothing
    from fuzz.explain.attribute.history import Recognised
    from fuzz.explain.finding import Finding
    from fuzz.explain.rule.rule import Rule
    from fuzz.findings.casefile import FoundRecord

TRIES = 3
"""A bucket is explained this many times where time ends first: what two more tries did not finish needs more time than
a night has for it. The number was chosen, not measured."""
_MOST_CAUSES = 6
"""The most buckets of one kernel and family: a kernel that is wrong everywhere, in a different way each time, is not
reported in pieces."""
_MOST_ERRORS = 3
"""The most internal errors of one run that are kept as cases: one cause would otherwise fill the disk."""


@dataclass
class FindingBook:
    """What fails in the same way on one kernel waits in one bucket, until it is sorted by its causes; from then on each
    cause has a bucket, and what the rule of none holds of waits in a further one."""

    store: Store
    source: Callable[[], Source]
    """Returns the search that finds what is being found now."""
    targets: Mapping[str, Target] = field(default_factory=dict)
    """The targets by id. Those of an explained kernel are needed to tell its failures apart."""
    name_of: Callable[[str, Judgement], str] = by_verdict
    """Names the bucket in which a failure of a kernel waits."""
    buckets: dict[str, Bucket] = field(default_factory=dict)
    """The buckets by name."""
    batch: Unsaved = field(default_factory=Unsaved)
    """What the store has not been told of yet."""
    replaying: dict[str, str] = field(default_factory=dict)
    """While kept cases are replayed, this maps each case's digest to the bucket that it stands for."""
    trouble: str = ""
    """The reason why some case file could not be written. The finding itself is kept."""
    errors: list[str] = field(default_factory=list)
    """A line for each of the first internal errors of judging: what the oracle says then cannot be trusted."""
    keeps: bool = True
    """Whether cases go to disk; False where nothing could judge them again later."""
    _gone: set[str] = field(default_factory=set)
    """These names are not given again in this session, since the batch may still speak of them."""

    def add(self, kernel: str, case: Case, judgement: Judgement, everyone: Mapping[str, str]) -> Bucket:
        """Count a failing run; keep its case if it is the first of its bucket or smaller than the one kept."""
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
        """Failing runs of a bucket."""
        bucket.sightings[target] += times
        self.batch.sightings[bucket.name, target] += times

    @property
    def seen(self) -> list[Bucket]:
        """The buckets that have failed in this session; a store may know others."""
        return [bucket for bucket in self.buckets.values() if bucket.finding is not None]

    def kept(self) -> set[tuple[str, str]]:
        """Target and digest of every case that failed in this session and is kept."""
        return {(b.finding.target, b.finding.judgement.case) for b in self.buckets.values() if b.finding is not None}

    def note_error(self, line: str, case: Case) -> None:
        """Keep the case of an error of ours, in which a target's outcome could not be judged, and say so in a line."""
        if len(self.errors) < _MOST_ERRORS:
            path = evidence_path(self.store.folder, case)
            try:
                _save(path, case)
                kept = f"the case is kept as {path}"
            except OSError as unsaved:
                kept = f"the case cannot be kept: {unsaved.strerror}"
            self.errors.append(f"{line}; {kept}; please report it")

    def commit(self) -> str:
        """Give the batch to the store; why not everything is saved, or ''."""
        if self.trouble:
            self.trouble = ""
            for bucket in self.buckets.values():
                if bucket.finding is not None and not bucket.written:
                    self._write(bucket)
        batch, self.batch = self.batch, Unsaved()
        return self.store.commit(batch) or self.trouble

    def rescued(self) -> Mapping[str, Path]:
        """Write the case files for which the disk had no room to a new folder for temporary files, which may be on
        another disk. Returns those that could be written, by bucket."""
        found, lost = {}, [bucket for bucket in self.seen if not bucket.written]
        with contextlib.suppress(OSError):
            folder = Path(mkdtemp(prefix="kernelfuzz-")) if lost else Path()
            for bucket in lost:
                path = self._path(bucket, folder)
                _save(path, bucket.case, bucket.record())
                found[bucket.name] = path
        return found

    def siblings(self, bucket: Bucket) -> list[Bucket]:
        """The other buckets of its kernel that fail alike."""
        base = base_of(bucket.name)
        return [each for name, each in self.buckets.items() if base_of(name) == base and each is not bucket]

    def explain(self, bucket: Bucket, finding: Finding) -> None:
        """Keep the shrunk case with its explanation in place of the smallest that was found."""
        self.tell(bucket, finding, finding.core, whole=finding.is_whole)

    def tell(self, bucket: Bucket, finding: Finding, core: Rule | None, *, whole: bool) -> None:
        """The same where another process has explained it: in full, or as far as there was time."""
        from fuzz.explain.attribute.history import Need

        bucket.need, bucket.core, bucket.note, bucket.option = Need.NOTHING, core or bucket.core, "", ""
        bucket.tries += not whole
        self._keep(bucket, finding, bucket.source, pending=not whole and bucket.tries < TRIES)

    def note_need(self, bucket: Bucket, found: Recognised) -> None:
        """Keep with the case the calls that must come before it, or that none are known to make it fail again."""
        from fuzz.explain.attribute.history import need_line

        bucket.need, bucket.note = found.need, need_line(found, bucket.case)
        self._keep(bucket, replace(bucket.found, history=found.history), bucket.source, pending=False)

    def open(self, source: Bucket, findings: Sequence[Finding]) -> Bucket:
        """A further bucket for findings that were counted in `source`."""
        fresh = Bucket(self._further(base_of(source.name)), source.kernel, tries=source.tries)
        self.buckets[fresh.name] = fresh
        self._keep(fresh, min(findings, key=lambda finding: finding.size), source.source)
        for finding in findings:
            fresh.pile.add(finding)
        self.move(source, fresh, findings)
        return fresh

    def move(self, source: Bucket, into: Bucket, findings: Iterable[Finding]) -> None:
        """Count these findings in another bucket than they were counted in."""
        for finding in findings:
            self.count(source, finding.target, -1)
            self.count(into, finding.target)

    def widen(self, bucket: Bucket, core: Rule | None) -> None:
        """Tell failures of a further band by the bucket too."""
        if bucket.core is not None and core is not None:
            bucket.core = bucket.core.with_band(core)
            self.batch.buckets[bucket.name] = replace(bucket)

    def merge(self, source: Bucket, into: Bucket) -> None:
        """The findings of one bucket are those of another."""
        del self.buckets[source.name]
        self._gone.add(source.name)
        into.sightings.update(source.sightings)
        self.batch.merged.append((source.name, into.name))
        self._release(source.path)

    def join(self, guest: Bucket, home: Bucket, verdicts: Mapping[str, str]) -> None:
        """The findings of one kernel's bucket have their cause in a source that they share with those of another.

        `verdicts` are those of the case that is kept, by target.
        """
        self.merge(guest, home)
        self.share(home, guest.also | {guest.kernel}, verdicts)

    def share(self, bucket: Bucket, others: frozenset[str], verdicts: Mapping[str, str]) -> None:
        """Note that the cause of a bucket lies in a source of which other kernels are made too."""
        from fuzz.explain.causes import shared_cause

        kernels = {target.kernel.name: target.kernel for target in self.targets.values()}
        bucket.also |= others
        cause = shared_cause([kernels[name] for name in (bucket.kernel, *sorted(bucket.also)) if name in kernels])
        found = replace(bucket.found, verdicts=verdicts).caused_by(cause)
        self._keep(bucket, found, bucket.source, pending=bucket.pending)

    def _bucket_for(self, kernel: str, case: Case, judgement: Judgement) -> str:
        """The bucket whose case it is; else the one whose rule holds of the case; else the one that waits to be sorted;
        else one of no rule that fails by itself: nothing tells its failures from others; else a further one."""
        base, replayed = self.name_of(kernel, judgement), self.replaying.get(case.digest, "")
        if replayed and base_of(replayed) == base:
            return replayed
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
        """The first of the buckets whose rule holds of the case."""
        from fuzz.explain.trial.family import Family
        from fuzz.explain.trial.trial import traits_for

        if all(bucket.core is None for bucket in buckets.values()):
            return None
        traits = traits_for(case, self.targets[judgement.target], Family.of(judgement).law)
        return next((name for name, bucket in buckets.items() if bucket.core and bucket.core.holds(traits)), None)

    def _further(self, base: str) -> str:
        """A name that no bucket has."""
        names = [base, *(f"{base}+{number}" for number in range(2, len(self.buckets) + len(self._gone) + 3))]
        return next(name for name in names if name not in self.buckets and name not in self._gone)

    def _keep(self, bucket: Bucket, finding: Finding, source: Source, *, pending: bool = True) -> None:
        """Keep this finding in the bucket in place of the one before."""
        bucket.finding, bucket.target, bucket.source, bucket.pending = finding, finding.target, source, pending
        bucket.size = finding.size if finding.diagnosis is None else (finding.size[0], 0)
        self._write(bucket)

    def describe(self, bucket: Bucket) -> None:
        """Put together what is known of the bucket's finding."""
        from fuzz.explain.facts import explanation_of

        told = explanation_of(bucket.found, self.targets.get(bucket.found.target))
        bucket.explanation = replace(told, kernel=bucket.kernel)

    def _path(self, bucket: Bucket, folder: Path) -> Path:
        number = bucket.name.removeprefix(base_of(bucket.name))
        return folder / f"{self.name_of(bucket.kernel, bucket.judgement)}{number}-{bucket.case.digest[:12]}.json"

    def _write(self, bucket: Bucket) -> None:
        """Write the case file. Where the disk is full the one before stays, and the bucket is not lost over it."""
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
    """The book of one run, whose findings go to a folder of case files."""
    return FindingBook(FileStore(folder), lambda: Source(seed))


def _save(path: Path, case: Case, found: FoundRecord | None = None) -> None:
    from fuzz.findings.casefile import save

    save(path, case, found)
