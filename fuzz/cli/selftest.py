"""`kernelfuzz selftest`: prove that planted bugs are found."""

from __future__ import annotations

from typing import Annotated

import typer

from fuzz.cli import options


def selftest(
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search.")] = 1,
    max_cases: Annotated[
        int, typer.Option("--max-cases", min=1, help="Cases per mutant before it counts as missed.")
    ] = 4000,
    explain: Annotated[
        bool, typer.Option("--explain", help="Shrink and explain each mutant too, and compare with what was planted.")
    ] = False,
    keyword: options.Keyword = None,
    pack: options.Pack = None,
    json: options.Json = None,
    jobs: options.Jobs = 0,
) -> int:
    """Plant every known bug in a correct kernel and see it caught, for the right reason, with its base clean."""
    from fuzz.cli.mutation import Request, run_selftest

    return run_selftest(Request(seed, max_cases, keyword, pack, json, jobs, explain))
