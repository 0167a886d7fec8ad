"""`kernelfuzz calibrate`: how far correct kernels really stray, against what they are allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    runs: Annotated[int, typer.Option("--runs", min=1, help="Rows to judge, about.")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1,
    dtype: Annotated[list[str] | None, typer.Option("--dtype", help="Accumulator: f32, f16, bf16. Repeatable.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the f32 errors to this file (needs matplotlib).")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="One line per structure, length and kind of values.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> int:
    """Judge simulated correct kernels of every summation structure; exit code 1 if one is rejected.

    For each structure and row length: the largest err/budget of rows with random and with structured values. With
    --full also the largest error of a sum in units of u, and what lambda it needed.
    """
    from fuzz.cli.calibrating import Request, run_calibration

    return run_calibration(Request(runs, seed, tuple(dtype or ("f32", "f16", "bf16")), plot, full, markdown))
