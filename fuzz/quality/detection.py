"""How many of the planted bugs a search finds, how soon, and whether it accuses a correct kernel. What published tests
find of the same bugs was measured once: the tables of `fuzz/docs/detection.md`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from statistics import median
from typing import Annotated

import typer

from fuzz.campaign.parallel import spread_answers
from fuzz.campaign.search.schedule import one_by_one
from fuzz.campaign.search.stopping import Interruption
from fuzz.campaign.search.turn_runner import SearchScope, TurnJob, TurnReport, TurnRunner
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import duration, loaded
from fuzz.core.adapters.pack import Pack
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Mutant
from fuzz.core.base.selection import keyword
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.registry import declared
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record

_LEAST = 200
"""The fewest cases of a search of the correct kernel, whatever was found in the others. Chosen."""
_IN_VALUES = {Verdict.FAIL_NUMERIC.value, Verdict.FAIL_NONFINITE.value}


@dataclass(frozen=True)
class DetectionOptions:
    """The options of `python3 -m fuzz.quality detection`."""

    ops: Annotated[
        tuple[str, ...], typer.Option("--ops", metavar="GLOB", help="Only bugs of these ops. Repeatable.")
    ] = ()
    keyword: Annotated[
        str | None, typer.Option("-k", metavar="EXPR", help="Only planted bugs whose name matches, e.g. 'tail or nan'.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the searches.")] = 1
    max_cases: Annotated[
        int, typer.Option("--max-cases", min=1, help="Cases of a search for the bugs of one kernel.")
    ] = 1000
    each: Annotated[
        float, typer.Option("--each", metavar="60s", parser=duration, help="The most for one kernel and its bugs.")
    ] = 60.0
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


@dataclass(frozen=True)
class SearchVerdict:
    """What a search says of one kernel."""

    kernel: str
    right: bool
    """Whether it is the correct kernel, which must not be accused."""
    accused: bool
    cases: int
    """The number of cases until it was accused, or in all."""
    seconds: float
    """The seconds until then, of this kernel and those searched with it."""


@dataclass(frozen=True)
class Searched:
    """One correct kernel and its planted bugs, as one search found them."""

    base: str
    seen: tuple[SearchVerdict, ...] = ()
    not_run: str = ""
    """Why it could not be measured."""


def detection(options: DetectionOptions) -> Exit:
    """Count the planted bugs that a search finds, and the correct kernels that it accuses.

    For example: python3 -m fuzz.quality detection --ops softmax --each 20s
    """
    pack = loaded(options.pack)
    bugs = planted_in(pack, options.keyword, options.ops)

    def ask(base: str) -> Searched:
        try:
            return searched(pack, base, bugs[base], options)
        except UsageError as error:
            return Searched(base, not_run=str(error))

    found, out, err = list[Searched](), console.results(), console.progress()
    processes = options.jobs or len(os.sched_getaffinity(0))
    with Interruption("what is known is shown") as stop:
        for each in spread_answers(
            [*bugs], ask, Searched, processes, lambda: stop.wanted, str, "its process was ended from outside"
        ):
            found.append(each)
            err.print(f"{len(found)} of {len(bugs)}, {each.base}: {each.not_run or 'searched'}", soft_wrap=True)
    seen = [one for each in found for one in each.seen]
    print_table(score(seen, visible_of(pack.mutants)), markdown=options.markdown)
    missed = [each.kernel for each in seen if not each.right and not each.accused]
    out.print(f"\nnot found: {', '.join(missed) or 'none'}", soft_wrap=True)
    for each in found:
        if each.not_run:
            out.print(f"not measured: {each.base}: {each.not_run}", soft_wrap=True)
    if len(found) < len(bugs):
        out.print(f"interrupted: {len(bugs) - len(found)} of {len(bugs)} correct kernels were not reached")
    limits = f"at most {options.max_cases:,} cases and {options.each:g} s for each correct kernel, seed {options.seed}"
    out.print(limits, soft_wrap=True)
    write_record(options.json, {"seed": options.seed, "found": [asdict(each) for each in found]})
    return Exit.OK


def planted_in(pack: Pack, names: str | None, ops: Collection[str]) -> dict[str, list[Mutant]]:
    """Return the planted bugs of these names and ops, by the correct kernel. Raises UsageError if there is none."""
    bugs, matches = dict[str, list[Mutant]](), keyword(names) if names else lambda name: True
    for mutant in pack.mutants:
        op = pack.kernel(mutant.base).op
        if matches(mutant.name) and (not ops or any(fnmatchcase(op, glob) for glob in ops)):
            bugs.setdefault(mutant.base, []).append(mutant)
    if not bugs:
        raise UsageError(f"{pack.path} plants no bug that matches")
    return bugs


def visible_of(mutants: Iterable[Mutant]) -> frozenset[str]:
    """Return the names of the bugs that show in values; others write outside a tensor, or differ from call to call."""
    return frozenset(each.name for each in mutants if {*each.caught_as} <= _IN_VALUES)


def score(seen: Sequence[SearchVerdict], visible: Collection[str]) -> PlainTable:
    """Return the counts of what was found, as a table of one row."""
    wrong = [each for each in seen if not each.right]
    found = [each for each in wrong if each.accused]
    in_values = [each for each in wrong if each.kernel in visible]
    right = [each for each in seen if each.right]
    until = [f"{median(times):.2g}" if times else "-" for times in (
        [each.cases for each in found], [each.seconds for each in found],
    )]  # fmt: skip
    columns = (
        "bugs found", "of those that show in values", "cases to the first, median", "seconds, median",
        "correct kernels accused",
    )  # fmt: skip
    shares = _share(wrong), _share(in_values)
    return PlainTable(columns, [(*shares, *until, f"{sum(each.accused for each in right)} of {len(right)}")])


def _share(seen: Sequence[SearchVerdict]) -> str:
    found = sum(each.accused for each in seen)
    return f"{found} of {len(seen)} ({found / len(seen):.0%})" if seen else "-"


@dataclass
class Hunt:
    """A search of one correct kernel and its planted bugs, and what it has found."""

    right: Target
    wrong: Sequence[Target]
    pool: WorkerPool
    cases: int = 0
    found: dict[str, tuple[int, float]] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def left(self) -> Sequence[Target]:
        """The planted bugs that are not found yet."""
        return [target for target in self.wrong if target.id not in self.found]

    def turns(self, seed: int, most: float = math.inf) -> Iterator[TurnReport]:
        """Yield the reports of the search, turn after turn."""
        everyone, kernel = (self.right, *self.wrong), self.right.kernel
        scope = SearchScope([kernel], declared([kernel]), ([each.id for each in everyone],), accuracy=True)
        runner = _Sparing(self.pool, everyone, scope, self.see)
        runner.found = self.found.keys()
        yield from one_by_one(runner, kernel.op, seed, most)

    def see(self, judge: EntryJudge) -> None:
        """Count one more case. A verdict that the correct kernel has too does not count for the others."""
        if self.right.id not in judge.outcomes:
            return
        self.cases += 1
        is_right = not judge.judge(self.right).verdict.is_finding
        for target in self.wrong if is_right else (self.right,):
            if target.id not in self.found and target.id in judge.outcomes and judge.judge(target).verdict.is_finding:
                self.found[target.id] = self.cases, self.seconds

    def seen(self, target: Target) -> SearchVerdict:
        cases, seconds = self.found.get(target.id, (self.cases, self.seconds))
        return SearchVerdict(
            target.kernel.name, target is self.right, target.id in self.found, cases, round(seconds, 3)
        )


def searched(pack: Pack, base: str, mutants: Sequence[Mutant], limits: DetectionOptions) -> Searched:
    """Search a correct kernel and its planted bugs together, as `kernelfuzz run` does. Raises UsageError where it
    cannot."""
    with hunted(pack, base, mutants) as hunt:
        for _ in hunt.turns(limits.seed, limits.max_cases):
            if (hunt.cases >= _LEAST and not hunt.left) or hunt.seconds > limits.each:
                break
    return Searched(base, tuple(map(hunt.seen, (hunt.right, *hunt.wrong))))


@contextmanager
def hunted(pack: Pack, base: str, mutants: Sequence[Mutant]) -> Iterator[Hunt]:
    """Start the workers of a correct kernel and its planted bugs. Raises UsageError if one does not run here."""
    right, wrong = _targets(pack, base, mutants)
    with WorkerPool((right, *wrong), jobs=1) as pool:
        for each in (right, *wrong):
            if isinstance(status := pool.statuses[each.id], NotRun):
                raise UsageError(f"{each.id}: does not run here: {status}")
        yield Hunt(right, wrong, pool)


class _Sparing(TurnRunner):
    """Gives no more cases to what is found: the oracle confirms each failure, which takes long."""

    found: Collection[str] = ()

    def begin(self, *tasks: TurnJob) -> None:
        super().begin(*(replace(each, resting=tuple(self.found)) for each in tasks))


def _targets(pack: Pack, base: str, mutants: Sequence[Mutant]) -> tuple[Target, list[Target]]:
    """Return a target for the correct kernel, and the same one for each planted bug that must be found there."""
    kernel = pack.kernel(base)
    changed = [(mutant, expand([mutant.apply(kernel)])) for mutant in mutants]
    for place, target in enumerate(expand([kernel])):
        wrong = [targets[place] for mutant, targets in changed if _is_due(mutant, targets[place])]
        if target.unavailable() is None and len(wrong) == len(mutants):
            return target, wrong
    raise UsageError(f"{base}: no target runs here on which all of its planted bugs must be found")


def _is_due(mutant: Mutant, target: Target) -> bool:
    return any(fnmatchcase(target.id, pattern) for pattern in mutant.targets)
