"""What a run visited of the input space, and what it did not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from fuzz.findings.tally import Tally
from fuzz.generate.coverage import Ledger
from fuzz.report.not_run import and_more
from fuzz.report.tables import PlainTable, print_table

_SHORT = 3
"""corners of one kind that are named where no target accepts them; of more, how many."""
_NAMED = 12
"""coverage gaps of one kind that are named before '... and N more'; the records name all."""


def print_coverage(console: Console, tally: Tally) -> None:
    """A table per op: how many values of each kind were visited, how often the rarest, and the gaps by name."""
    for op, ledger in tally.coverage.items():
        console.print(f"\ncoverage of {op}:")
        print_table(PlainTable(("kind", "visited", "of", "rarest", "gaps"), _rows(ledger)), markdown=False)
    gaps = sum(ledger.size for ledger in tally.coverage.values())
    able = {target for reach in tally.reach.values() for target in reach.space["target"]}
    unable = [target for target in tally.targets if target not in able]
    if unable:
        console.print(f"cannot run here, and visited nothing: {and_more(unable)}", soft_wrap=True)
    beyond = [(op, kind, values) for op, reach in tally.reach.items() for kind, values in reach.beyond.items()]
    if beyond:
        corners = sum(len(values) for _, _, values in beyond)
        named = ", ".join(f"{op} {kind}{_few(values)}" for op, kind, values in beyond)
        console.print(f"{corners} corners that no selected target accepts: {named}", soft_wrap=True)
    console.print("no coverage gap" if gaps == 0 else f"{gaps} coverage gaps: run longer, or see the table")


def _few(values: Sequence[str]) -> str:
    return f" {', '.join(values)}" if len(values) <= _SHORT else f" ({len(values)})"


def coverage_record(ledger: Ledger) -> dict[str, Any]:
    """Counts and coverage gaps by kind, for the records."""
    gaps = ledger.gaps()
    return {kind: {"counts": dict(counts), "holes": gaps.get(kind, [])} for kind, counts in ledger.counts.items()}


def _rows(ledger: Ledger) -> list[tuple[str, ...]]:
    gaps = ledger.gaps()
    rows: list[tuple[str, ...]] = []
    for kind, values in ledger.space.items():
        missing = gaps.get(kind, [])
        rarest = min(ledger.counts[kind][value] for value in values)
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        named = ", ".join(missing[:_NAMED]) + more
        rows.append((kind, str(len(values) - len(missing)), str(len(values)), str(rarest), named))
    return rows
