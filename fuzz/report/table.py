"""The table at the end of a session: a line for each kernel, with -v for each target too, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fuzz.core.adapters.target import TargetId
from fuzz.findings.tally import Tally, TargetTally, WorstPass, widest_first
from fuzz.report.console import bare_table

_CELLS = 10
"""The cells of a bar, each a tenth: four columns of numbers fit beside it in 80 columns."""
_LEAST_NAME = 8
"""The least columns for a kernel's name: in a terminal of 60 columns these fit beside the numbers."""
_HEAD = ("targets", "runs", "failing", "largest error")
_NOTE = "largest error: of all passing runs, in % of what is allowed; 100% is still right"


@dataclass(frozen=True)
class KernelLine:
    """The counts of one kernel on all its targets."""

    name: str
    ran: int
    """The number of targets on which something was judged."""
    targets: int
    judged: int
    failing: int
    """The number of failing runs."""
    largest: tuple[str, float] | None
    """The widest dtype with a passing run, and the largest err/budget of passing runs in it. In 16 bits, the rounding
    of the result alone is most of the budget, for any kernel."""
    op: str = ""


def kernel_lines(tally: Tally) -> list[KernelLine]:
    """Return a line for each kernel."""
    groups: dict[str, list[TargetTally]] = {}
    for target in tally.targets.values():
        groups.setdefault(target.kernel, []).append(target)
    return [
        KernelLine(
            name, sum(each.judged > 0 for each in group), len(group), sum(each.judged for each in group),
            sum(each.findings for each in group), largest(each.worst for each in group),
        )
        for name, group in groups.items()
    ]  # fmt: skip


def largest(found: Iterable[dict[str, WorstPass]]) -> tuple[str, float] | None:
    """Return the widest dtype with a passing run and the largest err/budget in it; None without a passing run."""
    everywhere = list(found)
    dtypes = widest_first({dtype for each in everywhere for dtype in each})
    if not dtypes:
        return None
    return dtypes[0], max(each[dtypes[0]].ratio for each in everywhere if dtypes[0] in each)


def bar(ratio: float, *, ascii_only: bool = False) -> str:
    """Return a ratio from 0 to 1 as a bar with its percentage, such as '████······  43%'."""
    full, empty = ("#", ".") if ascii_only else ("█", "·")
    cells = min(round(ratio * _CELLS), _CELLS)
    return f"{full * cells}{empty * (_CELLS - cells)} {min(ratio, 1.0):4.0%}"


def print_kernels(out: Console, lines: Sequence[KernelLine], tally: Tally | None = None) -> None:
    """Print a row for each kernel that was judged, the failing ones first. With a tally, also print a row for each of
    its targets, and where the largest errors were."""
    lines = sorted((line for line in lines if line.ran), key=lambda line: line.failing == 0)
    narrow = _only_ascii(out)
    rows = [(line, _cells(line, narrow=narrow)) for line in lines]
    # If there is no room for both, the name is cut and not the bar.
    widths = (max(map(len, column)) + 2 for column in zip(*(cells for _, cells in rows), _HEAD, strict=True))
    table = bare_table()
    room = max(out.width - sum(widths), _LEAST_NAME)
    table.add_column("kernel", no_wrap=True)
    for name in _HEAD:
        table.add_column(name, justify="left" if name == _HEAD[-1] else "right", no_wrap=True)
    if tally is not None:
        table.add_column("seen at", overflow="fold")
    for line, cells in rows:
        name = line.name if len(line.name) <= room else f"{line.name[: room - 2]}.."
        table.add_row(name, *cells[:-2], failing_cell(line.failing), cells[-1])
        for target in tally.targets.values() if tally is not None else ():
            if target.kernel == line.name:
                _add_target(table, target, narrow=narrow)
    if lines:
        out.print(table)
        out.print(_NOTE, style="dim", soft_wrap=True)


def _cells(line: KernelLine, *, narrow: bool) -> tuple[str, ...]:
    shown = f"{bar(line.largest[1], ascii_only=narrow)} {line.largest[0]}" if line.largest is not None else ""
    return f"{line.ran} of {line.targets}", f"{line.judged:,}", f"{line.failing:,}", shown


def _add_target(table: Table, target: TargetTally, *, narrow: bool) -> None:
    """Add a row for a target, and a row for each of its further dtypes."""
    rows = [
        (f"{bar(target.worst[dtype].ratio, ascii_only=narrow)} {dtype}", target.worst[dtype].where)
        for dtype in widest_first(target.worst)
    ]
    first, *more = rows or [("", "" if target.judged else "NOT_RUN")]
    place = f"  {TargetId.parse(target.target).where}"
    table.add_row(place, "", f"{target.judged:,}", failing_cell(target.findings), *first)
    for row in more:
        table.add_row("", "", "", "", *row)


def failing_cell(failing: int) -> Text:
    """Return the number of failing runs, in red if it is not 0."""
    return Text(f"{failing:,}", style="bold red" if failing else "")


def _only_ascii(out: Console) -> bool:
    return not out.encoding.lower().startswith("utf")
