"""`kernelfuzz init`: a pack to begin with."""

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
            help="What the kernel is written in; by default what --from is.",
        ),
    ] = ""
    given: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Your kernel: its source, or a shared library.")
    ] = None
    prototype: Annotated[
        str, typer.Option("--prototype", metavar="'void f(...)'|FILE.h", help="How C declares it.")
    ] = ""
    op: Annotated[
        str, typer.Option("--op", help="What it computes, see kernelfuzz list ops; by default by its name.")
    ] = ""


def init(options: InitOptions) -> Exit:
    """Write a pack that runs, with comments on what to change: of your kernel, or of a softmax to begin with.

    Nothing that is there is overwritten.

    For example: kernelfuzz init mine --from softmax.c
    """
    import shlex

    from fuzz.uses.beginning.written import Beginning, begin

    for path in begin(options.folder, Beginning(options.kind, options.given, options.prototype, options.op)):
        print(f"wrote {path}")
    print(f"next: kernelfuzz run --pack {shlex.quote(str(options.folder))} --max-cases 200")
    return Exit.OK
