"""`kernelfuzz derive`: the formula of a function of torch tensors, as Python to keep in a pack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fuzz.cli.exits import Exit


@dataclass(frozen=True)
class DeriveOptions:
    """The options of `kernelfuzz derive`."""

    reference: Annotated[str, typer.Argument(metavar="FILE.py:FUNCTION", show_default=False)]
    shapes: Annotated[
        str,
        typer.Option(
            "--shapes", metavar="'x=... n, eps=1e-5'",
            help="The dimensions of its tensors, by name, and the values of other arguments.",
        ),
    ] = ""  # fmt: skip
    fixed: Annotated[
        tuple[str, ...], typer.Option("--fixed", metavar="DIM=SIZE", help="A dimension whose extent never changes.")
    ] = ()
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype", metavar="f32|f16|bf16", help="Call the function with this dtype, to see what it rounds."
        ),
    ] = "f32"


def derive(options: DeriveOptions) -> Exit:
    """Print the formula of a function as Python for a pack, to read, keep and change.

    The file is run, and the function is traced with torch. The formula has the function's value, which was compared in
    float64. The name of the op, its dimensions and the order of its operations are yours to change.

    For example: kernelfuzz derive refs.py:gate --shapes 'x=... n, bias=n'
    """
    from fuzz.core.base.errors import UsageError
    from fuzz.references.named import derived_at, sizes_of
    from oracles.dtypes import FORMATS, NARROW, SINGLE

    if options.dtype not in (SINGLE.name, *NARROW):
        raise UsageError(f"--dtype {options.dtype}: it is one of {', '.join((SINGLE.name, *NARROW))}")
    fixed, dtype = sizes_of(options.fixed), FORMATS[options.dtype].spelling
    print(derived_at(options.reference, options.shapes, fixed=fixed, dtype=dtype).module, end="")
    return Exit.OK
