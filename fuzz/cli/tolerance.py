"""`kernelfuzz tolerance`: how wide a tolerance must be, and what it then lets through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded


@dataclass(frozen=True)
class ToleranceOptions:
    """The options of `kernelfuzz tolerance`."""

    op: Annotated[str, typer.Argument(help="An op, see kernelfuzz list ops.", show_default=False)]
    dtype: Annotated[str, typer.Option("--dtype", metavar="f64|f32|f16|bf16", help="That of the inputs.")] = "f32"
    n: Annotated[int, typer.Option("--n", min=1, help="Elements in a row of the first input.")] = 4096
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of normal values that are looked at.")] = 32
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False
    pack: options.PackFolder = None


def tolerance(options: ToleranceOptions) -> Exit:
    """Say which tolerance a correct kernel needs, beside those of assert_close and allclose.

    No kernel is run: the numbers follow from the exact result and from how far rounding can lead away from it.

    For example: kernelfuzz tolerance softmax --dtype bf16 --n 4096
    """
    from fuzz.base.errors import UsageError
    from fuzz.base.validity import unknown_op
    from fuzz.report import console
    from fuzz.uses.tolerance.needs import DTYPES, needs
    from fuzz.uses.tolerance.told import record_text, tolerance_lines, tolerance_table
    from oracles.ops import OPS

    loaded(options.pack, sources=False)
    if options.op not in OPS:
        raise UsageError(unknown_op(repr(options.op)))
    if options.dtype not in DTYPES:
        raise UsageError(f"--dtype {options.dtype}: it is one of {', '.join(DTYPES)}")
    found = tuple(needs(OPS[options.op], options.dtype, options.n, options.rows))
    if options.json:
        print(record_text(options.op, options.dtype, options.n, options.rows, found))
        return Exit.OK
    out = console.results()
    out.print(f"{options.op} in {options.dtype}: {options.rows} rows of {options.n:,} normal values", soft_wrap=True)
    for each in found:
        out.print()
        console.print_table(tolerance_table(each), markdown=False)
        console.print_lines(out, tolerance_lines(each))
    if not found:
        out.print("no output of it has numbers that rounding could change: compare exactly")
    return Exit.OK
