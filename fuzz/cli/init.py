"""`kernelfuzz init`: a new pack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli.exits import Exit


@dataclass(frozen=True)
class InitOptions:
    """The options of `kernelfuzz init`."""

    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the pack.", show_default=False)]
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="c|c++|shared|cuda|torch|numpy|triton|dlpack|command",
            help="What the kernel is written in. Default: what the file of --from shows.",
        ),
    ] = ""
    given: Annotated[
        str, typer.Option("--from", metavar="FILE[:FUNCTION]", help="Your kernel: its source, or a shared library.")
    ] = ""
    prototype: Annotated[
        str,
        typer.Option(
            "--prototype", metavar="'void f(...)'|FILE.h", help="The C prototype of the function, or a header with it."
        ),
    ] = ""
    op: Annotated[
        str,
        typer.Option(
            "--op",
            metavar="OP|FILE.py:FUNCTION",
            help="What the kernel computes: an op of kernelfuzz list ops, or a Python function that computes the same. "
            "Default: the op of the kernel's name.",
        ),
    ] = ""
    shapes: Annotated[
        str,
        typer.Option("--shapes", metavar="'x=... n, w=n'", help="The dimensions of that Python function's tensors."),
    ] = ""
    arguments: Annotated[
        tuple[str, ...],
        typer.Option(
            "--argument",
            metavar="NAME=MEANING",
            help="What an argument of the kernel means, if its name does not say: a tensor, a dimension, a parameter "
            "or a number. Repeatable.",
        ),
    ] = ()


def init(options: InitOptions) -> Exit:
    """Write a pack that runs, for your kernel or for a softmax to begin with; its comments say what to change.

    Nothing is overwritten.

    For example: kernelfuzz init mine --from softmax.c
    """
    import shlex

    from fuzz.report.console import results
    from fuzz.tasks.beginning.written import InitRequest, begin

    asked = InitRequest(
        options.kind, options.given, options.prototype, options.op, options.shapes, tuple(options.arguments)
    )
    begun = begin(options.folder, asked)
    if begun.taken:
        meant = ", ".join(f"{name} is {meaning}" for name, meaning in begun.taken.items())
        results().print(f"{meant}; --argument NAME=MEANING changes that")
    for path in begun.paths:
        print(f"wrote {path}")
    print(f"next: kernelfuzz run --pack {shlex.quote(str(options.folder))} --max-cases 200")
    return Exit.OK
