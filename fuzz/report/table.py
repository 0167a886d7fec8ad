"""The table at the end of a run: one line per kernel and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Tally, TargetTally
from fuzz.report.not_run import not_run_lines
from fuzz.report.outline import Outline
from fuzz.report.progress import minutes


def run_table(tally: Tally) -> Table:
    """Cases, worst err/budget of each dtype and where it was seen, findings; without kernels of which nothing ran."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kernel", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("findings", justify="right", no_wrap=True)
    for dtype in tally.dtypes:
        table.add_column(f"worst err/budget {dtype}", overflow="fold")
    previous = ""
    ran = {target.kernel for target in tally.targets.values() if target.judged or target.not_run}
    for target in tally.targets.values():
        if target.kernel not in ran:
            continue
        kernel = "" if target.kernel == previous else target.kernel
        place = target.target.split("@", 1)[1]
        table.add_row(kernel, place, f"{target.judged:,}", _findings(target), *_worst(target, tally.dtypes))
        previous = target.kernel
    return table


def print_run(out: Console, outline: Outline, tally: Tally, book: FindingBook, elapsed: float) -> None:
    """The table with its notes, each finding, and the totals."""
    out.print(run_table(tally))
    for note in run_notes(tally):
        out.print(note, style="yellow", soft_wrap=True)
    for problem in outline.problems:
        out.print()
        out.print(problem.text, soft_wrap=True)
    out.print()
    if tally.laws:
        out.print(law_line(tally), soft_wrap=True)
    rate = tally.judged / elapsed if elapsed else 0.0
    told = "cause" if any(bucket.explained for bucket in book.buckets.values()) else "kernel and verdict"
    buckets = f"{len(book.buckets)} bucket{'s' if len(book.buckets) != 1 else ''} (one per {told})"
    found = f"{tally.findings:,} failing runs in {buckets}" if tally.findings else "nothing found"
    found = found if tally.judged else "NOTHING RAN"  # never to be taken for a clean run
    out.print(
        f"{found}: {tally.judged:,} judged runs of {tally.cases:,} cases in {minutes(elapsed)} ({rate:,.0f}/s), "
        f"seed {outline.seed}",
        soft_wrap=True,
    )


def print_gate(
    out: Console,
    outline: Outline,
    tally: Tally,
    counts: Mapping[str, int],
    base: str | None,
    reasons: Mapping[str, str],
    elapsed: float,
    *,
    passed: bool,
) -> None:
    """The table with its notes, each finding, what else fails the gate, what was changed, and how it ended."""
    out.print(run_table(tally))
    for note in (*run_notes(tally), *outline.notes):
        out.print(note, style="yellow", soft_wrap=True)
    for problem in outline.problems:
        known = [f"known failure, {problem.known}:"] if problem.known else []
        for line in ("", *known, problem.text):
            out.print(line, soft_wrap=True)
    out.print()
    for line in outline.complaints:
        out.print(line, style="bold red", soft_wrap=True)
    counted = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    changed = ", ".join(f"{name} ({reason})" for name, reason in reasons.items())
    if base is not None:
        out.print(f"changed since {base}: {changed or 'no kernel'}", soft_wrap=True)
    expected = len(outline.problems) - len(outline.failing)
    named = sorted({f"{problem.kernel} {problem.verdict.value}" for problem in outline.failing})
    more = (f": {', '.join(named)}" if named else "") + (f"; {expected} known failures" if expected else "")
    out.print(f"cases: {counted or 'none'}", soft_wrap=True)
    ending = "passed" if passed else "FAILED"
    out.print(f"gate {ending}{more}: {outline.judged:,} judged runs in {minutes(elapsed)}", soft_wrap=True)


def _findings(target: TargetTally) -> Text:
    return Text(f"{target.findings:,}", style="bold red" if target.findings else "")


def _worst(target: TargetTally, dtypes: Sequence[str]) -> list[str]:
    if target.judged == 0:
        return ["NOT_RUN"]
    return [f"{worst.ratio:.3f} {worst.where}" if (worst := target.worst.get(dtype)) else "-" for dtype in dtypes]


def law_line(tally: Tally) -> str:
    """How often each law was compared. One that no case fitted shows as 0: it proves nothing."""
    return "laws compared: " + ", ".join(f"{law} {count:,}" for law, count in tally.laws.items())


def run_notes(tally: Tally) -> list[str]:
    """What the table has no room for: targets that did not run, or not always, and what the oracle could not settle."""
    notes = []
    for target in tally.targets.values():
        if target.gave_up:
            notes.append(f"ORACLE_GAVE_UP {target.gave_up} times on {target.target}")
    idle = {
        target.target: target.not_run_reason or "no case fits this target"
        for target in tally.targets.values()
        if target.not_run or target.judged == 0
    }
    return [*notes, *not_run_lines(idle)]
