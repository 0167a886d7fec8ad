"""The table at the end of a run: one line per kernel and target."""

from __future__ import annotations

from rich.table import Table

from fuzz.run.tally import Tally, TargetTally


def run_table(tally: Tally) -> Table:
    """Cases, worst err/budget and where it was seen, findings; targets that did not run say why."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kernel", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("worst err/budget", justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")
    table.add_column("findings", justify="right", no_wrap=True)
    previous = ""
    for target in tally.targets.values():
        kernel = "" if target.kernel == previous else target.kernel
        table.add_row(kernel, target.target.split("@", 1)[1], *_cells(target))
        previous = target.kernel
    return table


def _cells(target: TargetTally) -> tuple[str, str, str, str]:
    if target.judged == 0:
        reason = target.not_run_reason or "no case fits this target"
        return "0", "-", f"NOT_RUN: {reason}", "-"
    findings = f"[bold red]{target.findings:,}[/]" if target.findings else "0"
    where = target.worst_where
    if target.gave_up:
        where += f" (oracle gave up {target.gave_up} times)"
    if target.not_run:
        where += f" (NOT_RUN {target.not_run} times: {target.not_run_reason})"
    return f"{target.judged:,}", f"{target.worst_ratio:.3f}", where, findings
