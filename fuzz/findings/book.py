"""Findings of a run: one bucket per kernel, verdict and broken law, each kept as its smallest case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.base import __version__
from fuzz.base.case import Case
from fuzz.findings.casefile import Found, save
from fuzz.judge.judge import Judgement
from fuzz.triage.examination import Explained
from fuzz.triage.sorting import Cause, Pile, size_of


@dataclass
class Bucket:
    """All findings of one kernel with one verdict; those of FAIL_LAW, by one law."""

    kernel: str
    verdict: str
    case: Case
    """the smallest failing case so far."""
    judgement: Judgement
    """the finding on that case."""
    others: dict[str, str] = field(default_factory=dict)
    """verdict of every other target on that same case: who agrees with the oracle and who does not."""
    path: Path | None = None
    """its case file."""
    note: str = ""
    """what is known of the finding beyond its judgement."""
    history: tuple[Case, ...] = ()
    """the calls that must come before the case, in one process."""
    count: int = 0
    targets: set[str] = field(default_factory=set)
    explained: Explained | None = None
    pile: Pile = field(default_factory=Pile, repr=False)
    """its failing runs."""


class FindingBook:
    """Keeps findings as they come. Case files are written at once, so that a killed run loses nothing."""

    def __init__(self, folder: Path, run_seed: int) -> None:
        self.folder = folder
        self.run_seed = run_seed
        self.buckets: dict[tuple[str, str, str], Bucket] = {}
        self.trouble = ""
        """why a case file could not be written; the finding itself is kept."""

    def add(self, kernel: str, case: Case, judgement: Judgement, everyone: dict[str, str]) -> Bucket:
        """Count a finding; keep its case if it is the first of its bucket or smaller than the one kept."""
        key = (kernel, judgement.verdict.value, judgement.broken_law_name)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = Bucket(kernel, judgement.verdict.value, case, judgement)
            self._keep(bucket, case, judgement, everyone)
        elif size_of(case) < size_of(bucket.case):
            self._keep(bucket, case, judgement, everyone)
        bucket.count += 1
        bucket.pile.add(case, judgement)
        bucket.targets.add(judgement.target)
        return bucket

    def settle(self, raw: Sequence[Bucket], causes: Sequence[Cause]) -> None:
        """Put one bucket for each cause in the place of those that were told apart by their verdicts only."""
        beyond = sum(bucket.pile.more for bucket in raw)
        keys = [key for key, bucket in self.buckets.items() if any(bucket is each for each in raw)]
        before = [self.buckets.pop(key) for key in keys]
        for number, cause in enumerate(causes):
            explained = cause.explained
            bucket = Bucket(before[0].kernel, "", explained.case, explained.judgement, explained=explained)
            bucket.count = len(cause.sightings) + (beyond if number == 0 else 0)
            bucket.targets = {sighting.judgement.target for sighting in cause.sightings}
            self._keep(bucket, explained.case, explained.judgement, explained.verdicts)
            self.buckets[(bucket.kernel, bucket.verdict, explained.case.digest)] = bucket
        kept = {bucket.path for bucket in self.buckets.values()}
        for bucket in before:
            if bucket.path is not None and bucket.path not in kept and not self.trouble:
                bucket.path.unlink(missing_ok=True)

    def kept(self) -> set[tuple[str, str]]:
        """Target and digest of every case that is kept."""
        return {(bucket.judgement.target, bucket.judgement.case) for bucket in self.buckets.values()}

    def keep_evidence(self, case: Case) -> Path:
        """Write the case of an internal error; where it went."""
        path = self.folder / f"internal-{case.digest[:12]}.json"
        save(path, case)
        return path

    def _keep(self, bucket: Bucket, case: Case, judgement: Judgement, everyone: dict[str, str]) -> None:
        bucket.verdict, bucket.history = judgement.verdict.value, ()
        words = (bucket.kernel, bucket.verdict.lower(), judgement.broken_law_name, case.digest[:12])
        path = self.folder / f"{'-'.join(word for word in words if word)}.json"
        if self._write(bucket, path, case, judgement):
            if bucket.path is not None and bucket.path != path:
                bucket.path.unlink(missing_ok=True)
            bucket.path = path
        bucket.case, bucket.judgement = case, judgement
        bucket.others = {target: verdict for target, verdict in everyone.items() if target != judgement.target}

    def _found(self, bucket: Bucket, judgement: Judgement) -> Found:
        explained = bucket.explained
        return Found(
            judgement.target, judgement.verdict.value, self.run_seed, __version__, judgement.broken_law,
            explanation=tuple(explained.lines()) if explained else (),
            original=explained.original.digest if explained else "",
            history=bucket.history,
        )  # fmt: skip

    def keep_history(self, bucket: Bucket, history: tuple[Case, ...]) -> None:
        """Keep with the bucket's case the calls that must come before it."""
        bucket.history = history
        if bucket.path is not None:
            self._write(bucket, bucket.path, bucket.case, bucket.judgement)

    def _write(self, bucket: Bucket, path: Path, case: Case, judgement: Judgement) -> bool:
        try:
            save(path, case, self._found(bucket, judgement))
        except OSError as error:
            # The smallest case on disk stays; losing the finding over a full disk would be worse than a larger case.
            self.trouble = f"{path}: cannot be written: {error.strerror}"
            return False
        return True
