"""`kernelfuzz list`: tables of kernels, targets, ops and more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit


class Listed(StrEnum):
    """The things that can be listed."""

    KERNELS = "kernels"
    TARGETS = "targets"
    OPS = "ops"
    FUNCTIONS = "functions"
    RECIPES = "recipes"
    LAWS = "laws"
    PLATFORMS = "platforms"


@dataclass(frozen=True)
class ListOptions:
    """The options of `kernelfuzz list`."""

    what: Annotated[Listed, typer.Argument(help="kernels, targets, ops, functions, recipes, laws or platforms.")]
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table, for a README.")] = False
    pack: options.PackFolder = None


def list_(options: ListOptions) -> Exit:
    """List kernels, targets, ops, functions of formulas, recipes, laws or platforms.

    For a target that cannot run here it says why; for a platform it names the documents.

    For example: kernelfuzz list ops
    """
    from fuzz.report.console import print_table
    from fuzz.report.listings import listing

    print_table(listing(options.what.value, options.pack), markdown=options.markdown)
    return Exit.OK
