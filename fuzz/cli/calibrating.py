"""What `kernelfuzz calibrate` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import track

from fuzz.base.errors import UsageError
from fuzz.cli.exits import Exit
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from oracles.budget import CONFIDENCE
from oracles.calibration import DTYPES, Measurement, calibrate, plot, worst


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz calibrate`."""

    runs: int
    seed: int
    dtypes: tuple[str, ...]
    plot: Path | None
    full: bool
    markdown: bool


def run_calibration(request: Request) -> Exit:
    """Print the table, draw the plot; exit 1 where a correct kernel was rejected."""
    unknown = [dtype for dtype in request.dtypes if dtype not in DTYPES]
    if unknown:
        raise UsageError(f"--dtype {unknown[0]}: not calibrated; known: {', '.join(DTYPES)}")
    out, err = console.results(), console.progress()
    measured = calibrate(request.runs, request.seed, request.dtypes)
    table = worst(list(track(measured, "Judging correct kernels", console=err, transient=True)))
    print_table(_full(table) if request.full else _by_length(table), markdown=request.markdown)
    alarms = sum(row.alarms for row in table)
    needed = max((row.constant for row in table if row.statistical), default=0.0)
    out.print(
        f"\n{sum(row.rows for row in table):,} rows judged, {alarms} false alarms, seed {request.seed}; "
        f"lambda is {CONFIDENCE:g}, the largest that a statistical budget needed was {needed:.3g}",
        soft_wrap=True,
    )
    if request.plot is not None:
        _draw(table, request.plot)
    return Exit.FINDINGS if alarms else Exit.OK


def _by_length(rows: Sequence[Measurement]) -> PlainTable:
    """A line per dtype and structure, a column per row length: err/budget 'random / structured'."""
    lengths = sorted({row.n for row in rows})
    lines = [
        (dtype, structure, *(_cell(rows, dtype, structure, n) for n in lengths))
        for dtype, structure in dict.fromkeys((row.dtype, row.structure) for row in rows)
    ]
    return PlainTable(("dtype", "structure", *(f"n = {n}" for n in lengths)), lines)


def _cell(rows: Sequence[Measurement], dtype: str, structure: str, n: int) -> str:
    here = [row for row in rows if (row.dtype, row.structure, row.n) == (dtype, structure, n)]
    worst = [max((row.ratio for row in here if row.structured is kind), default=None) for kind in (False, True)]
    return " / ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in worst)


def _full(rows: Sequence[Measurement]) -> PlainTable:
    columns = (
        *("dtype", "structure", "n", "values", "budget", "rows", "h"),
        *("error/u", "error/(sqrt(h) u)", "err/budget", "alarms"),
    )
    return PlainTable(
        columns,
        [
            (
                row.dtype,
                row.structure,
                str(row.n),
                "structured" if row.structured else "random",
                "statistical" if row.statistical else "worst case",
                f"{row.rows:,}",
                str(row.chain),
                f"{row.error:.3g}",
                f"{row.constant:.3g}",
                f"{row.ratio:.3g}",
                str(row.alarms),
            )
            for row in rows
        ],
    )


def _draw(table: Sequence[Measurement], path: Path) -> None:
    try:
        plot(table, str(path))
    except ModuleNotFoundError as error:
        raise UsageError("--plot needs matplotlib: pip install 'kernelfuzz[plot]'") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"--plot {path}: {error}") from error
