"""What `kernelfuzz corpus` does."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from fuzz.adapters.pack import built_in as built_in_pack
from fuzz.adapters.pack import load as load_pack
from fuzz.base.case import Case
from fuzz.cli.exits import Exit
from fuzz.findings.book import book_in
from fuzz.findings.tally import whereabouts
from fuzz.judge.judge import Judgement
from fuzz.laws.registry import LAWS, Entry
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.totals import run_notes, run_table
from fuzz.uses.corpus.folder import (
    ACCURACY,
    CASE,
    SUITE,
    Kept,
    built_in,
    digests,
    json_files,
    keep,
    kept_cases,
    kind_of,
    load,
)
from fuzz.uses.corpus.replay import entries_of, in_batches
from fuzz.uses.corpus.suites import expand, load_suite
from fuzz.uses.corpus.upkeep import merge, subsumed
from fuzz.uses.gate.accuracy import load_accuracy
from fuzz.uses.search.runner import Limits, Runner
from fuzz.uses.starting import select_targets, started


def add_cases(cases: Sequence[Path], corpora: Path | None, into: str, about: Mapping[str, str]) -> Exit:
    """Copy case files; those that are there already stay as they are."""
    folder = corpora or built_in()
    known = digests(kept_cases(folder))
    for path in cases:
        kept = load(path)
        if kept.case.digest in known:
            print(f"{path}: already kept")
            continue
        known.add(kept.case.digest)
        written = keep(Kept(path, kept.case, kept.found, {**kept.about, **about}), folder / into)
        print(f"{path}: kept as {written}")
    return Exit.OK


def list_corpus(corpora: Path | None, *, markdown: bool) -> Exit:
    """One line per case file and per suite."""
    folder = corpora or built_in()
    rows = []
    for path in json_files(folder):
        name, kind = path.relative_to(folder).as_posix(), kind_of(path)
        if kind == CASE:
            kept = load(path)
            dtype = kept.case.inputs["x"].dtype
            rows.append((name, kept.case.op, f"{dtype} {whereabouts(kept.case)}", _reason(kept)))
        elif kind == SUITE:
            suite = load_suite(path)
            ops = Counter(published.case.op for published in expand(suite))
            rows.append((name, ", ".join(ops), f"{ops.total()} cases", suite.source))
    print_table(PlainTable(("file", "op", "case", "why"), rows), markdown=markdown)
    return Exit.OK


def _reason(kept: Kept) -> str:
    documented = ": ".join(kept.about[name] for name in ("bug", "why") if name in kept.about)
    if documented or kept.found is None:
        return documented
    return f"{kept.found.verdict} on {kept.found.target}"


def verify_corpus(corpora: Path | None, *, run: bool, patterns: tuple[str, ...], pack: Path | None, jobs: int) -> Exit:
    """Load every file, and with `run` judge every case."""
    folder = corpora or built_in()
    counts: Counter[str] = Counter()
    groups: list[list[Entry]] = []
    for path in json_files(folder):
        kind = kind_of(path)
        counts[kind] += 1
        if kind == CASE:
            groups.append(entries_of(load(path)))
        elif kind == SUITE:
            groups += [[Entry(published.case)] for published in expand(load_suite(path))]
        else:
            load_accuracy(path)
    files = ", ".join(f"{counts[kind]} {kind.removeprefix('kernelfuzz ')}" for kind in (CASE, SUITE, ACCURACY))
    print(f"{folder}: {counts.total()} files ({files}), {len(groups)} cases, all sound")
    return _judge(groups, patterns, pack, jobs) if run else Exit.OK


def _judge(groups: Sequence[list[Entry]], patterns: tuple[str, ...], pack: Path | None, jobs: int) -> Exit:
    out, err = console.results(), console.progress()
    targets = select_targets(load_pack(pack or built_in_pack()).kernels, patterns=patterns)
    with tempfile.TemporaryDirectory() as scratch, started(targets, jobs, err) as pool:
        runner = Runner(pool, targets, Limits(), book_in(Path(scratch), 0), tuple(LAWS))
        nobody = _Nobody()
        runner.observers = [nobody]
        tally = runner.replay(in_batches(groups))
    out.print(run_table(tally))
    _say(out, [*run_notes(tally), *nobody.lines])
    print(f"{tally.judged:,} judged runs, {tally.findings} findings")
    if tally.findings:
        return Exit.FINDINGS
    return Exit.OK if tally.judged else Exit.NOTHING_RAN


class _Nobody:
    """Notes the cases that no kernel takes: kept, but proving nothing."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        if not judgements:
            self.lines.append(f"no kernel takes {case.digest[:12]}: {case.op}, {whereabouts(case)}")

    def progress(self, elapsed: float) -> None:
        """Nothing to show."""


def _say(out: Console, lines: Sequence[str]) -> None:
    for line in lines:
        out.print(line, style="yellow", soft_wrap=True)


def prune_corpus(corpora: Path | None, *, dry_run: bool) -> Exit:
    """Remove what a smaller case shows as well."""
    folder = corpora or built_in()
    dropped = subsumed(kept_cases(folder))
    for each in dropped:
        print(f"{'would remove' if dry_run else 'removed'} {each.kept.path}: {each.by.path.name} shows the same")
        if not dry_run:
            each.kept.path.unlink()
    print(f"{len(dropped)} cases {'to remove' if dry_run else 'removed'}")
    return Exit.OK


def merge_corpus(source: Path, corpora: Path | None, into: str) -> Exit:
    """Copy what is new."""
    folder = corpora or built_in()
    written = merge(source, folder / into, kept_cases(folder))
    for path in written:
        print(f"kept {path}")
    print(f"{len(written)} new cases")
    return Exit.OK
