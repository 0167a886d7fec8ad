"""`kernelfuzz calibrate`: how far correct kernels really stray, against what they are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of `kernelfuzz calibrate`."""

    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs of each op to judge.")] = 2_000
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    op: Annotated[str, typer.Option("--op", help="Ops whose kernels are simulated (a glob).")] = "*"
    pack: options.PackFolder = None
    full: Annotated[bool, typer.Option("--full", help="One line per contract.")] = False
    markdown: options.Markdown = False


def calibrate(options: CalibrateOptions) -> Exit:
    """Judge simulated correct kernels of ops from their formulas; exit code 1 if one is rejected.

    They are judged under contracts in which any two values of two fields meet.
    """
    from fnmatch import fnmatchcase

    from fuzz.base.errors import UsageError
    from fuzz.cli.options import loaded
    from fuzz.report import console
    from fuzz.report.console import PlainTable, print_table
    from oracles.formula.calibration import calibrate as measured
    from oracles.ops import OPS

    loaded(options.pack)
    chosen = [op for op in OPS.values() if fnmatchcase(op.name, options.op)]
    if not chosen:
        raise UsageError(f"--op {options.op}: no such op; there are {', '.join(OPS)}")
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
