"""`kernelfuzz selftest`: prove that planted bugs are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded


@dataclass(frozen=True)
class SelftestOptions:
    """The options of `kernelfuzz selftest`."""

    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search.")] = 1
    max_cases: Annotated[
        int, typer.Option("--max-cases", min=1, help="Cases per mutant before it counts as missed.")
    ] = 4000
    explain: Annotated[
        bool, typer.Option("--explain", help="Shrink and explain each mutant too, and compare with what was planted.")
    ] = False
    keyword: options.Keyword = None
    pack: options.PackFolder = None
    json: options.Json = None
    jobs: options.Jobs = 0


def selftest(options: SelftestOptions) -> Exit:
    """Plant every known bug in a correct kernel and see it caught, for the right reason, with its base clean."""
    from fuzz.report import console
    from fuzz.report.records import write_record
    from fuzz.uses.search.stopping import Interruption
    from fuzz.uses.selftest.explained import explained_lines
    from fuzz.uses.selftest.hunt import chosen_mutants, hunt
    from fuzz.uses.selftest.report import mutant_facts, mutant_table

    out, err = console.results(), console.progress()
    pack = loaded(options.pack)
    mutants, results = chosen_mutants(pack, options.keyword), []
    with Interruption("what was hunted for is shown") as stop:
        for number, mutant in enumerate(mutants, start=1):
            err.print(f"[{number}/{len(mutants)}] {mutant.name}: {mutant.trigger}")
            result = hunt(
                pack, mutant, options.seed, options.max_cases, options.jobs, err, stop, explain=options.explain
            )
            if stop.wanted:  # it may just not have been found yet
                break
            results.append(result)
    out.print(mutant_table(results))
    killed = sum(result.passed for result in results)
    out.print(f"{killed} of {len(results)} mutants killed for the right reason, their bases clean")
    if len(results) < len(mutants):
        out.print(f"interrupted: {len(mutants) - len(results)} more mutants were not hunted for")
    explained = [result.explained for result in results if result.explained is not None]
    for line in explained_lines(explained) if options.explain else ():
        out.print(line, soft_wrap=True)
    write_record(options.json, mutant_facts(results))
    if any(result.failed for result in results) or not all(each.named and each.swept.smallest for each in explained):
        return Exit.FINDINGS
    if len(results) < len(mutants):
        return Exit.INTERRUPTED
    return Exit.OK if killed == len(results) else Exit.REQUIRED_NOT_RUN
