"""The table at the end of a run: one line per kernel and target."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from fuzz.adapters.target import TargetId
from fuzz.findings.tally import Tally, TargetTally
from fuzz.report.not_run import not_run_lines


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
        place = TargetId.parse(target.target).where
        table.add_row(kernel, place, f"{target.judged:,}", _findings(target), *_worst(target, tally.dtypes))
        previous = target.kernel
    return table


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
