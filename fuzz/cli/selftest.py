"""`kernelfuzz selftest`: proof that planted bugs are found."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.core.base.text import counted


@dataclass(frozen=True)
class SelftestOptions:
    """The options of `kernelfuzz selftest`."""

    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search.")] = 1
    max_cases: Annotated[
        int, typer.Option("--max-cases", min=1, help="Cases per mutant before it counts as missed.")
    ] = 4000
    keyword: options.Keyword = None
    pack: options.PackFolder = None
    json: options.Json = None
    jobs: options.Processes = 0


def selftest(options: SelftestOptions) -> Exit:
    """Plant every known bug in a correct kernel, and check that it is found, for the right reason, and that the correct
    kernel passes.

    For example: kernelfuzz selftest --pack mine -k tail
    """
    from fuzz.campaign.parallel import spread_answers
    from fuzz.campaign.search.stopping import Interruption
    from fuzz.campaign.selftest import Hunted, chosen_mutants, hunt, hunted, mutant_table
    from fuzz.core.base.kernel import Mutant
    from fuzz.report import console
    from fuzz.report.records import write_record

    out, err = console.results(), console.progress()
    pack = loaded(options.pack)
    mutants = chosen_mutants(pack, options.keyword)
    processes = options.jobs or len(os.sched_getaffinity(0))

    def hunt_for(mutant: Mutant) -> Hunted:
        stop = Interruption()  # of this hunt alone: an unwanted hunt ends with its process
        return hunted(hunt(pack, mutant, options.seed, options.max_cases, 1, err, stop))

    def begin(place: int) -> None:
        text = f"[{place + 1}/{len(mutants)}] {mutants[place].name}: {mutants[place].trigger}"
        console.print_lines(err, [text])

    with Interruption("what was hunted for is shown") as stop:
        # If a stop is wanted, unfinished hunts are dropped, since their mutants might still be found.
        found = list(
            spread_answers(
                mutants, hunt_for, Hunted, processes, lambda: stop.wanted, lambda mutant: mutant.name,
                "the process that hunted for it was ended from outside", begin,
            )
        )  # fmt: skip
    order = {mutant.name: place for place, mutant in enumerate(mutants)}
    results = sorted(found, key=lambda each: order[each.mutant])
    out.print(mutant_table(results))
    killed = sum(result.passed for result in results)
    out.print(f"{killed} of {counted(len(results), 'mutant')} killed for the right reason, their bases clean")
    if len(results) < len(mutants):
        out.print(f"interrupted: {counted(len(mutants) - len(results), 'more mutant')} not hunted for")
    write_record(options.json, {"mutants": [asdict(result) for result in results]})
    if any(result.failed for result in results):
        return Exit.FINDINGS
    if len(results) < len(mutants):
        return Exit.INTERRUPTED
    return Exit.OK if killed == len(results) else Exit.REQUIRED_NOT_RUN
