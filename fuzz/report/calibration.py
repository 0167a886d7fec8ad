"""Calibration as tables: how far correct kernels strayed, against what they are allowed."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.report.console import PlainTable
from oracles.calibration import Measurement


def by_length(rows: Sequence[Measurement]) -> PlainTable:
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


def by_row_kind(rows: Sequence[Measurement]) -> PlainTable:
    """A line per dtype, structure, length and kind of values."""
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
