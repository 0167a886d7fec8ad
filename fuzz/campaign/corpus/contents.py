"""The contents of a corpus: a table of its files, and a check that they can be loaded and judged."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.campaign.corpus.accuracy import load_accuracy
from fuzz.campaign.corpus.folder import ACCURACY, CASE, Kept, entries_of, in_batches, json_files, kind_of, load
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.campaign.starting import note_not_running
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.text import counted
from fuzz.core.base.validity import UnknownOpError
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import LAWS, Entry
from fuzz.findings.book import book_in
from fuzz.findings.tally import Observer, Tally, whereabouts
from fuzz.report.console import PlainTable
from oracles.ops import OPS


def contents(folder: Path) -> PlainTable:
    """Return a table with a line for each case file."""
    rows = []
    for path in json_files(folder):
        if kind_of(path) != CASE:
            continue
        name = path.relative_to(folder).as_posix()
        try:
            kept = load(path)
        except UnknownOpError:
            rows.append((name, "", "of an op that no loaded pack has", ""))
            continue
        dtype = kept.case.inputs[OPS[kept.case.op].main].dtype
        rows.append((name, kept.case.op, f"{dtype} {whereabouts(kept.case)}", _reason(kept)))
    return PlainTable(("file", "op", "case", "why"), rows)


def _reason(kept: Kept) -> str:
    documented = ": ".join(kept.about[name] for name in ("bug", "why") if name in kept.about)
    if documented or kept.found is None:
        return documented
    return f"{kept.found.verdict} on {kept.found.target}"


@dataclass
class SoundCorpus:
    """A corpus whose files could all be loaded."""

    folder: Path
    kinds: Counter[str] = field(default_factory=Counter)
    """The number of files of each kind."""
    groups: list[list[Entry]] = field(default_factory=list)
    """The groups of entries that are run together: usually a case, and a twin if the case is kept with a law."""
    others: list[Path] = field(default_factory=list)
    """The files whose cases are of ops that no loaded pack has."""

    def __str__(self) -> str:
        files = ", ".join(f"{self.kinds[kind]} {kind.removeprefix('kernelfuzz ')}" for kind in (CASE, ACCURACY))
        total, cases = counted(self.kinds.total(), "file"), counted(len(self.groups), "case")
        sound = f"{self.folder}: {total} ({files}), {cases}, all sound"
        if not self.others:
            return sound
        return f"{sound}; not checked, as no loaded pack has their ops: {counted(len(self.others), 'file')}"


def checked(folder: Path) -> SoundCorpus:
    """Load every file; cases of ops that no loaded pack has are only listed. Raises CaseError for a broken file."""
    found = SoundCorpus(folder)
    for path in json_files(folder):
        kind = kind_of(path)
        found.kinds[kind] += 1
        if kind == CASE:
            try:
                found.groups.append(entries_of(load(path)))
            except UnknownOpError:
                found.others.append(path)
        else:
            load_accuracy(path)
    return found


def judged(corpus: SoundCorpus, targets: Sequence[Target], pool: WorkerPool) -> tuple[Tally, list[str]]:
    """Judge every case on these targets. Return the tally, and a line for each case that no kernel accepts."""
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(pool, targets, SessionLimits(), book_in(Path(scratch), 0), SearchScope((), tuple(LAWS)))
        untaken = _Untaken()
        runner.observers = [untaken]
        note_not_running(runner.tally, targets, pool)
        return runner.run_entries(in_batches(corpus.groups)), untaken.lines


class _Untaken(Observer):
    """An observer that collects the cases that no kernel accepts: they are kept, but prove nothing."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        if not judgements:
            self.lines.append(f"no kernel takes {case.digest[:12]}: {case.op}, {whereabouts(case)}")
