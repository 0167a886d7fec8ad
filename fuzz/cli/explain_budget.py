"""`kernelfuzz explain-budget`: why an output element may stray as far as it may."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options


def explain_budget(
    case: Annotated[Path, typer.Argument(help="A case file.", show_default=False)],
    output: Annotated[str, typer.Option("--output", help="Name of the output.")] = "y",
    index: Annotated[str, typer.Option("--index", metavar="I,J,...", help="Element of the output.")] = "",
    target: Annotated[str | None, typer.Option("--target", help="Whose contract. Default: where it was found.")] = None,
    pack: options.Pack = None,
) -> int:
    """Print an element's exact value, the values that the contract allows, and each term of the budget.

    Nothing is run: the numbers follow from the case and from what the kernel declares. Without --index the first
    element is explained.
    """
    from fuzz.cli.budget import Request, explain

    return explain(Request(case, output, index, target, pack))
