"""`kernelfuzz header`: the header that a C kernel of an op includes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import declared_kernels


@dataclass(frozen=True)
class HeaderOptions:
    """The options of `kernelfuzz header`."""

    op: Annotated[str, typer.Argument(help="An op, see kernelfuzz list ops.", show_default=False)]
    pack: options.PackFolder = None


def header(options: HeaderOptions) -> Exit:
    """Print kernelfuzz.h, which a C kernel of this op includes.

    kernelfuzz itself needs no copy; write one to a file for your editor.

    For example: kernelfuzz header rms_norm > kernelfuzz.h
    """
    from fuzz.core.adapters import abi
    from fuzz.core.base.errors import UsageError
    from fuzz.core.base.validity import unknown_op
    from oracles.ops import OPS

    declared_kernels(options.pack)
    if options.op not in OPS:
        raise UsageError(unknown_op(repr(options.op)))
    print(abi.header([OPS[options.op]]), end="")
    return Exit.OK
