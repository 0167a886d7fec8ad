"""`kernelfuzz selftest`: prove that planted bugs are found."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import duration, loaded


@dataclass(frozen=True)
class SelftestOptions:
    """The options of `kernelfuzz selftest`."""

    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search.")] = 1
    max_cases: Annotated[
        int, typer.Option("--max-cases", min=1, help="Cases per mutant before it counts as missed.")
    ] = 4000
    explain: Annotated[
        bool, typer.Option("--explain", help="Also shrink and explain each mutant, and compare with what was planted.")
    ] = False
    against: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Plant bugs in the pack's kernels and run your own tests on each, in a copy: 'pytest tests/'.",
        ),
    ] = None
    project: Annotated[
        Path, typer.Option(help="With --against: the folder that is copied, in which the command runs.")
    ] = Path()
    bugs: Annotated[int, typer.Option("--bugs", min=1, help="With --against: at most this many bugs.")] = 30
    each: Annotated[
        float | None,
        typer.Option(
            metavar="60s",
            parser=duration,
            help="With --against: time limit for one run of your tests. Default: 5 times the time without a bug.",
        ),
    ] = None
    keyword: options.Keyword = None
    pack: options.PackFolder = None
    json: options.Json = None
    jobs: options.Processes = 0


def selftest(options: SelftestOptions) -> Exit:
    """Plant every known bug in a correct kernel, and check that it is found, for the right reason, and that the correct
    kernel passes.

    With --against, bugs are made in the kernels of your pack, and your own tests are run on each: which do they notice?

    For example: kernelfuzz selftest --pack kernels --against 'pytest tests/'
    """
    if options.against is not None:
        return _against(options, options.against)
    from fuzz.base.kernel import Mutant
    from fuzz.report import console
    from fuzz.report.records import write_record
    from fuzz.uses.parallel import spread_answers
    from fuzz.uses.search.stopping import Interruption
    from fuzz.uses.selftest.hunt import chosen_mutants, hunt
    from fuzz.uses.selftest.report import Hunted, explained_lines, hunted, mutant_table

    out, err = console.results(), console.progress()
    pack = loaded(options.pack)
    mutants = chosen_mutants(pack, options.keyword)
    processes = options.jobs or len(os.sched_getaffinity(0))

    def hunt_for(mutant: Mutant) -> Hunted:
        stop = Interruption()  # of its own: a hunt that is not wanted any longer is ended with its process
        return hunted(hunt(pack, mutant, options.seed, options.max_cases, 1, err, stop, explain=options.explain))

    def begin(place: int) -> None:
        text = f"[{place + 1}/{len(mutants)}] {mutants[place].name}: {mutants[place].trigger}"
        console.print_lines(err, [text])

    with Interruption("what was hunted for is shown") as stop:
        # Where a stop is wanted, what is under way is dropped: those mutants may just not have been found yet.
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
    out.print(f"{killed} of {len(results)} mutants killed for the right reason, their bases clean")
    if len(results) < len(mutants):
        out.print(f"interrupted: {len(mutants) - len(results)} more mutants were not hunted for")
    for line in explained_lines(results) if options.explain else ():
        out.print(line, soft_wrap=True)
    write_record(options.json, {"mutants": [asdict(result) for result in results]})
    explained = [result.explained for result in results if result.explained is not None]
    if any(result.failed for result in results) or any(each.missing or not each.is_smallest for each in explained):
        return Exit.FINDINGS
    if len(results) < len(mutants):
        return Exit.INTERRUPTED
    return Exit.OK if killed == len(results) else Exit.REQUIRED_NOT_RUN


def _against(options: SelftestOptions, command: str) -> Exit:
    from fuzz.base.errors import UsageError
    from fuzz.base.selection import keyword
    from fuzz.report import console
    from fuzz.report.records import write_record
    from fuzz.uses.search.stopping import Interruption
    from fuzz.uses.selftest.against import Tried, bugs_of, check_runs, checked, lines_of, tried
    from fuzz.uses.selftest.project import copied

    out, err, found = console.results(), console.progress(), list[Tried]()
    pack, matches = loaded(options.pack), keyword(options.keyword) if options.keyword else lambda name: True
    kernels = [kernel for kernel in pack.kernels if matches(kernel.name)]
    if not kernels:
        raise UsageError(
            f"no kernel matches -k {options.keyword!r}; there are: {', '.join(k.name for k in pack.kernels)}"
        )
    with copied(options.project, command) as project, Interruption("what was tried is shown") as stop:
        bugs = bugs_of(pack, kernels, project, options.bugs, options.seed)
        check_runs(bugs, err)
        err.print(f"{command}: in a copy of {project.origin}, first without a bug", soft_wrap=True)
        limit = checked(project, bugs, options.each)
        for each in tried(pack, project, bugs, limit, options.seed, options.max_cases, err, stop):
            found.append(each)
    for line in lines_of(found):
        out.print(line, soft_wrap=True)
    write_record(options.json, {"against": command, "seed": options.seed, "bugs": [asdict(each) for each in found]})
    if any(each.found and not each.killed for each in found):
        return Exit.FINDINGS
    if stop.wanted:
        return Exit.INTERRUPTED
    return Exit.OK if found else Exit.NOTHING_RAN
