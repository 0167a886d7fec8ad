"""Findings of a night: their buckets, and their case files, complete before the database names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzz import __version__
from fuzz.case import Case
from fuzz.execute.target import Target
from fuzz.judge.judgement import Judgement
from fuzz.report.failure import Origin, failure_text
from fuzz.run.tally import whereabouts
from fuzz.store.casefile import Found, save
from fuzz.store.database_deltas import BucketDelta
from fuzz.triage.examination import Explained
from fuzz.triage.family import Family
from fuzz.verdict import Verdict


@dataclass
class Kept:
    """The smallest case of a bucket, and where it is."""

    size: int
    path: Path | None = None
    """None while it could not be written."""
    case: Case | None = None
    """with the finding, in memory since it was found in this session."""
    judgement: Judgement | None = None
    pending: bool = True
    """not shrunk and explained yet."""
    found_by: str = ""
    """command that searches the same cases again."""
    seed: int = 0
    explained: Explained | None = None


@dataclass
class NightBook:
    """Keeps the smallest case of every bucket as a file in `folder`."""

    folder: Path
    targets: Mapping[str, Target]
    origin: Callable[[], Origin]
    """how to find again what is being found now."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """by signature, of all nights."""
    staged: dict[str, BucketDelta] = field(default_factory=dict)
    """seen since the last batch was handed over."""
    obsolete: list[Path] = field(default_factory=list)
    """files to remove once the database no longer names them."""
    trouble: str = ""
    """why some case could not be written; it is tried again with every batch."""

    def add(self, kernel: str, case: Case, judgement: Judgement, everyone: dict[str, str]) -> str:
        """Count a finding; keep its case if it is the first of its bucket or smaller. Returns the signature."""
        name = signature(kernel, judgement)
        kept = self.kept.get(name)
        if kept is None or size_of(case) < kept.size:
            others = {target: verdict for target, verdict in everyone.items() if target != judgement.target}
            self._keep(name, kernel, case, judgement, others)
        elif name not in self.staged:
            self.staged[name] = BucketDelta({"size": kept.size})
        self.staged[name].sightings[judgement.target] += 1
        return name

    def keep_evidence(self, case: Case) -> Path:
        """Write the case of an internal error; where it went."""
        path = self.folder / f"internal-{case.digest[:12]}.json"
        save(path, case)
        return path

    def write_again(self) -> dict[str, str]:
        """Try again what could not be written; the names of the files that now are, by signature."""
        self.trouble = ""
        names = {}
        for name, kept in self.kept.items():
            if kept.path is None and kept.case is not None and kept.judgement is not None:
                kept.path = self._written(name, kept.case, kept.judgement, kept.seed, kept.explained)
                if kept.path is not None:
                    names[name] = kept.path.name
        return names

    def settle(self, name: str, explained: Explained) -> None:
        """Keep the shrunk case with its explanation in place of the smallest that was found."""
        kernel = self.targets[explained.target].kernel.name
        others = {target: verdict for target, verdict in explained.verdicts.items() if target != explained.target}
        self._keep(name, kernel, explained.case, explained.judgement, others, explained)

    def _keep(
        self, name: str, kernel: str, case: Case, judgement: Judgement, others: Mapping[str, str],
        explained: Explained | None = None,
    ) -> None:  # fmt: skip
        before, origin = self.kept.get(name), self.origin()
        if explained is not None and before is not None:  # it was not found by what runs now
            origin = replace(origin, command=before.found_by, seed=before.seed)
        path = self._written(name, case, judgement, origin.seed, explained)
        if before is not None and before.path is not None and path not in (None, before.path):
            self.obsolete.append(before.path)
        self.kept[name] = Kept(
            size_of(case), path, case, judgement, explained is None, origin.command, origin.seed, explained
        )
        target = self.targets[judgement.target]
        shown = path or self._path(name, case)
        columns = {
            "kernel": kernel,
            "op": case.op,
            "verdict": judgement.verdict.value,
            "law": broken_law(judgement),
            "target": judgement.target,
            "case_file": path.name if path else "",
            "digest": case.digest,
            "size": size_of(case),
            "where": whereabouts(case),
            "text": failure_text(case, judgement, target, others, shown, origin),
            "explanation": "\n".join(explained.lines()) if explained else "",
            "triaged": case.digest if explained else "",
            "found_by": origin.command,
        }
        staged = self.staged.setdefault(name, BucketDelta(columns))
        staged.smallest = columns

    def _written(
        self, name: str, case: Case, judgement: Judgement, seed: int, explained: Explained | None
    ) -> Path | None:
        path = self._path(name, case)
        law = judgement.law if judgement.verdict is Verdict.FAIL_LAW else None
        lines, original = (tuple(explained.lines()), explained.original.digest) if explained else ((), "")
        found = Found(
            judgement.target, judgement.verdict.value, seed, __version__, law,
            explanation=lines, original=original,
        )  # fmt: skip
        try:
            save(path, case, found)
        except OSError as error:
            self.trouble = f"{path}: cannot be written: {error.strerror}"
            return None
        return path

    def _path(self, name: str, case: Case) -> Path:
        return self.folder / f"{name}-{case.digest[:12]}.json"


def signature(kernel: str, judgement: Judgement) -> str:
    """Which bucket a finding belongs to: verdicts that one cause mixes are one, such as a wrong value and a NaN."""
    return "-".join([kernel, *Family.of(judgement).key.split()])


def broken_law(judgement: Judgement) -> str:
    """Name of the law, for FAIL_LAW."""
    return judgement.law.name if judgement.law is not None and judgement.verdict is Verdict.FAIL_LAW else ""


def size_of(case: Case) -> int:
    """Elements of all inputs."""
    return sum(tensor.layout.size for tensor in case.inputs.values())
