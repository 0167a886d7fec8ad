"""`kernelfuzz calibrate`: how far correct kernels really stray, against what they are allowed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit

if TYPE_CHECKING:
    from oracles.op import Op


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of `kernelfuzz calibrate`."""

    runs: Annotated[int, typer.Option("--runs", min=1, help="Rows to judge; with --op runs of each op.")] = 20_000
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help="Accumulator: f32, f16, bf16. Repeatable.")] = ()
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the f32 errors to this file (needs matplotlib).")
    ] = None
    op: Annotated[
        str, typer.Option("--op", help="Ops that are judged from their formulas (a glob), instead of sums of squares.")
    ] = ""
    pack: options.PackFolder = None
    full: Annotated[bool, typer.Option("--full", help="One line per structure, length and kind of values.")] = False
    markdown: options.Markdown = False


def calibrate(options: CalibrateOptions) -> Exit:
    """Judge simulated correct kernels of every summation structure; exit code 1 if one is rejected.

    For each structure and row length: the largest err/budget of rows with random and with structured values. With
    --full also the largest error of a sum in units of u, and what lambda it needed. With --op simulated kernels of ops
    are judged from their formulas, under contracts in which any two values of two fields meet.
    """
    if options.op:
        return _formulas(options)
    from rich.progress import track

    from fuzz.base.errors import UsageError
    from fuzz.report import console
    from fuzz.report.console import print_table
    from fuzz.report.listings import by_length, by_row_kind
    from oracles import calibration
    from oracles.budget import CONFIDENCE

    dtypes = options.dtype or ("f32", "f16", "bf16")
    for dtype in dtypes:
        if dtype not in calibration.DTYPES:
            raise UsageError(f"--dtype {dtype}: not calibrated; known: {', '.join(calibration.DTYPES)}")
    measured = calibration.calibrate(options.runs, options.seed, dtypes)
    shown = track(measured, "Judging correct kernels", console=console.progress(), transient=True)
    table = calibration.worst(list(shown))
    print_table((by_row_kind if options.full else by_length)(table), markdown=options.markdown)
    alarms = sum(row.alarms for row in table)
    needed = max((row.constant for row in table if row.statistical), default=0.0)
    console.results().print(
        f"\n{sum(row.rows for row in table):,} rows judged, {alarms} false alarms, seed {options.seed}; "
        f"lambda is {CONFIDENCE:g}, the largest that a statistical budget needed was {needed:.3g}",
        soft_wrap=True,
    )
    if options.plot is not None:
        try:
            calibration.plot(table, str(options.plot))
        except ModuleNotFoundError as error:
            raise UsageError("--plot needs matplotlib: pip install 'kernelfuzz[plot]'") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"--plot {options.plot}: {error}") from error
    return Exit.FINDINGS if alarms else Exit.OK


def _formulas(options: CalibrateOptions) -> Exit:
    from fnmatch import fnmatchcase

    from fuzz.base.errors import UsageError
    from fuzz.cli.options import loaded
    from fuzz.report import console
    from fuzz.report.console import PlainTable, print_table
    from oracles.formula.calibration import calibrate as measured
    from oracles.numerics import BY_HAND
    from oracles.ops import OPS

    loaded(options.pack)
    known = [op for name, op in OPS.items() if name not in BY_HAND]
    chosen = [op for op in known if fnmatchcase(op.name, options.op)]
    if not chosen:
        raise UsageError(f"--op {options.op}: no op that is judged from its formula; there are {_names(known)}")
    lines, alarms = list[tuple[str, ...]](), 0
    for op in chosen:
        found = list(measured(op, options.runs, options.seed))
        alarms += sum(each.alarms for each in found)
        ratio, wrong = max(each.ratio for each in found), sum(each.alarms for each in found)
        lines.append((op.name, str(len(found)), f"{sum(each.runs for each in found):,}", f"{ratio:.3g}", str(wrong)))
        shown = found if options.full else [each for each in found if each.alarms]
        lines += [("", str(each.contract), f"{each.runs:,}", f"{each.ratio:.3g}", str(each.alarms)) for each in shown]
    table = PlainTable(("op", "contracts", "runs", "worst err/budget", "false alarms"), lines)
    print_table(table, markdown=options.markdown)
    console.results().print(f"\n{alarms} false alarms, seed {options.seed}", soft_wrap=True)
    return Exit.FINDINGS if alarms else Exit.OK


def _names(ops: Iterable[Op]) -> str:
    return ", ".join(op.name for op in ops) or "none"
