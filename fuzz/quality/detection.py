"""How many of the planted bugs a search finds, how soon, and whether it accuses a correct kernel, beside usual tests of
the same kernels: medians over seeds, and whether the difference is more than chance."""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from itertools import islice
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
from fuzz.core.base.errors import InternalError, UsageError
from fuzz.core.base.kernel import Mutant
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.selection import keyword
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge, Judge
from fuzz.core.laws.registry import declared
from fuzz.quality.rivals import RIVALS, Rival
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record

_LEAST = 200
"""The fewest cases of a search of the correct kernel, whatever was found in the others. Chosen."""
OURS = "kernelfuzz"
_TOGETHER = 4
"""The number of cases of a usual test that are sent to the workers at a time."""
_IN_VALUES = {Verdict.FAIL_NUMERIC.value, Verdict.FAIL_NONFINITE.value}


@dataclass(frozen=True)
class PlantedBugs:
    """Options that choose planted bugs."""

    ops: Annotated[
        tuple[str, ...], typer.Option("--ops", metavar="GLOB", help="Only bugs of these ops. Repeatable.")
    ] = ()
    keyword: Annotated[
        str | None, typer.Option("-k", metavar="EXPR", help="Only planted bugs whose name matches, e.g. 'tail or nan'.")
    ] = None

    def of(self, pack: Pack) -> dict[str, list[Mutant]]:
        """Return the bugs of a pack by the correct kernel. Raises UsageError if there is none."""
        bugs, matches = dict[str, list[Mutant]](), keyword(self.keyword) if self.keyword else lambda name: True
        for mutant in pack.mutants:
            op = pack.kernel(mutant.base).op
            if matches(mutant.name) and (not self.ops or any(fnmatchcase(op, glob) for glob in self.ops)):
                bugs.setdefault(mutant.base, []).append(mutant)
        if not bugs:
            raise UsageError(f"{pack.path} plants no bug that matches")
        return bugs


@dataclass(frozen=True)
class DetectionOptions:
    """The options of `python3 -m fuzz.quality detection`."""

    planted: PlantedBugs = field(default_factory=PlantedBugs)
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the searches.")] = 1
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="The number of seeds, from --seed on.")] = 1
    beside: Annotated[bool, typer.Option("--beside", help="Measure usual tests of the same kernels, too.")] = False
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
    """What a search, or a usual test, says of one kernel."""

    way: str
    """`OURS`, or the name of a usual test."""
    seed: int
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
    seed: int
    seen: tuple[SearchVerdict, ...] = ()
    not_run: str = ""
    """Why it could not be measured."""


def detection(options: DetectionOptions) -> Exit:
    """Count the planted bugs that a search finds, and the correct kernels that it accuses.

    For example: python3 -m fuzz.quality detection --ops softmax --each 20s
    """
    pack = loaded(options.pack)
    bugs = options.planted.of(pack)
    if options.beside and find_spec("scipy") is None:
        raise UsageError("--beside needs SciPy for its statistics: pip install scipy")
    questions = {
        f"{base}, seed {seed}": (base, seed)
        for seed in range(options.seed, options.seed + options.seeds)
        for base in bugs
    }

    def ask(question: str) -> Searched:
        base, seed = questions[question]
        try:
            return searched(pack, base, bugs[base], replace(options, seed=seed))
        except UsageError as error:
            return Searched(base, seed, not_run=str(error))

    found, out, err = list[Searched](), console.results(), console.progress()
    processes = options.jobs or len(os.sched_getaffinity(0))
    with Interruption("what is known is shown") as stop:
        for each in spread_answers(
            [*questions], ask, Searched, processes, lambda: stop.wanted, str, "its process was ended from outside"
        ):
            found.append(each)
            what = f"{each.base}, seed {each.seed}"
            err.print(f"{len(found)} of {len(questions)}, {what}: {each.not_run or 'searched'}", soft_wrap=True)
    seen = [one for each in found for one in each.seen]
    print_table(score(seen, visible_of(pack.mutants)), markdown=options.markdown)
    wrong = [each for each in seen if not each.right and each.way == OURS]
    missed = {each.kernel for each in wrong} - {each.kernel for each in wrong if each.accused}
    out.print(f"\nnot found: {', '.join(sorted(missed)) or 'none'}", soft_wrap=True)
    for base, why in dict.fromkeys((each.base, each.not_run) for each in found if each.not_run):
        out.print(f"not measured: {base}: {why}", soft_wrap=True)
    if len(found) < len(questions):
        out.print(f"interrupted: {len(questions) - len(found)} of {len(questions)} searches were not reached")
    last = options.seed + options.seeds - 1
    seeds = f"seeds {options.seed} to {last}" if options.seeds > 1 else f"seed {options.seed}"
    limits = f"at most {options.max_cases:,} cases and {options.each:g} s for each correct kernel and test, {seeds}"
    out.print(limits, soft_wrap=True)
    write_record(options.json, {"seed": options.seed, "found": [asdict(each) for each in found]})
    return Exit.OK


def visible_of(mutants: Iterable[Mutant]) -> frozenset[str]:
    """Return the names of the bugs that show in values; others write outside a tensor, or differ from call to call."""
    return frozenset(each.name for each in mutants if {*each.caught_as} <= _IN_VALUES)


def score(seen: Sequence[SearchVerdict], visible: Collection[str]) -> PlainTable:
    """Return a table with one row for each test: medians over seeds, with the least and the most."""
    ways = list(dict.fromkeys(each.way for each in seen))
    by_way = {way: [each for each in seen if each.way == way] for way in ways}
    ours = [*counts(each for each in by_way.get(OURS, ()) if not each.right).values()]
    rows = list[tuple[str, ...]]()
    for way, own in by_way.items():
        wrong = [each for each in own if not each.right]
        found = [each for each in wrong if each.accused]
        until = [f"{median(times):.2g}" if times else "-" for times in (
            [each.cases for each in found], [each.seconds for each in found],
        )]  # fmt: skip
        right = [each for each in own if each.right]
        shares = _share(wrong), _share([each for each in wrong if each.kernel in visible])
        chance = "" if way == OURS else by_chance([*counts(wrong).values()], ours)
        rows.append((way, *shares, *until, _share(right), chance))
    columns = (
        "test", "bugs found", "of those that show in values", "cases to the first, median", "seconds, median",
        "correct kernels accused", "by chance",
    )  # fmt: skip
    return PlainTable(columns, rows)


def counts(seen: Iterable[SearchVerdict]) -> Mapping[int, int]:
    """Return the number of accused kernels for each seed."""
    found = defaultdict[int, int](int)
    for each in seen:
        found[each.seed] += each.accused
    return found


def by_chance(theirs: Sequence[int], ours: Sequence[int]) -> str:
    """Return how likely two tests that find equally many bugs differ this much over the seeds, by the two-sided test of
    Mann and Whitney (1947); "-" for fewer than four seeds each, which cannot tell."""
    from scipy.stats import mannwhitneyu

    if min(len(theirs), len(ours)) < _FEWEST_SEEDS:
        return "-"
    return f"p = {mannwhitneyu(theirs, ours).pvalue:.2g}"


_FEWEST_SEEDS = 4
"""With three seeds of each no result has a probability below 0.1."""


def _share(seen: Sequence[SearchVerdict]) -> str:
    """Return how many of the kernels are accused with a seed, such as "20 (18 to 21) of 24"."""
    if not seen:
        return "-"
    each_seed, every = sorted(counts(seen).values()), len({each.kernel for each in seen})
    middle = median(each_seed)
    spread = f" ({each_seed[0]} to {each_seed[-1]})" if each_seed[0] < each_seed[-1] else ""
    return f"{middle:g}{spread} of {every} ({middle / every:.0%})"


@dataclass
class Hunt:
    """A search of one correct kernel and its planted bugs, and what it has found."""

    right: Target
    wrong: Sequence[Target]
    cases: int = 0
    found: dict[str, tuple[int, float]] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def is_done(self) -> bool:
        return all(target.id in self.found for target in self.wrong)

    def turns(self, pool: WorkerPool, seed: int, most: float = math.inf) -> Iterator[TurnReport]:
        """Yield the reports of the search, turn after turn."""

        def see(judge: EntryJudge) -> None:
            self.see(lambda each: each.id in judge.outcomes, lambda each: judge.judge(each).verdict.is_finding)

        everyone, kernel = (self.right, *self.wrong), self.right.kernel
        scope = SearchScope([kernel], declared([kernel]), ([each.id for each in everyone],), accuracy=True)
        runner = _Sparing(pool, everyone, scope, see)
        runner.found = self.found.keys()
        yield from one_by_one(runner, kernel.op, seed, most)

    def see(self, ran: Callable[[Target], bool], accused: Callable[[Target], bool]) -> None:
        """Count one more case. A verdict that the correct kernel has too does not count for the others."""
        if not ran(self.right):
            return
        self.cases += 1
        is_right = not accused(self.right)
        for target in self.wrong if is_right else (self.right,):
            if target.id not in self.found and ran(target) and accused(target):
                self.found[target.id] = self.cases, self.seconds

    def seen(self, way: str, seed: int) -> tuple[SearchVerdict, ...]:
        """Return what is found out about all kernels; nothing if there was no case."""
        every = (self.right, *self.wrong) if self.cases else ()
        until = {each.id: self.found.get(each.id, (self.cases, self.seconds)) for each in every}
        return tuple(
            SearchVerdict(
                way, seed, each.kernel.name, each is self.right, each.id in self.found, until[each.id][0],
                round(until[each.id][1], 3),
            )
            for each in every
        )  # fmt: skip


def searched(pack: Pack, base: str, mutants: Sequence[Mutant], limits: DetectionOptions) -> Searched:
    """Search a correct kernel and its planted bugs together, as `kernelfuzz run` does, and give them to usual tests if
    that is wanted. Raises UsageError where it cannot."""
    right, wrong = targets_of(pack, base, mutants)
    with hunters((right, *wrong)) as pool:
        hunt = Hunt(right, wrong)
        for _ in hunt.turns(pool, limits.seed, limits.max_cases):
            if (hunt.is_done and hunt.cases >= _LEAST) or hunt.seconds > limits.each:
                break
    seen = hunt.seen(OURS, limits.seed)
    # Usual tests have large cases for slow targets, too.
    with WorkerPool((right, *wrong), jobs=1, bounded=False) as pool:
        for rival in RIVALS if limits.beside else ():
            seen += _tested(pool, right, wrong, rival, limits).seen(rival.name, limits.seed)
    return Searched(base, limits.seed, seen)


@contextmanager
def hunters(everyone: Sequence[Target]) -> Iterator[WorkerPool]:
    """Start workers for a correct kernel and its planted bugs. Raises UsageError if one does not run here."""
    with WorkerPool(everyone, jobs=1) as pool:
        for each in everyone:
            if isinstance(status := pool.statuses[each.id], NotRun):
                raise UsageError(f"{each.id}: does not run here: {status.reason}")
        yield pool


def _tested(pool: WorkerPool, right: Target, wrong: Sequence[Target], rival: Rival, limits: DetectionOptions) -> Hunt:
    tally, cases = Hunt(right, wrong), rival.cases(right.kernel, limits.seed)

    def see(judge: Judge, outcomes: Mapping[str, Outcome]) -> None:
        tally.see(lambda each: _ran(outcomes.get(each.id)), lambda each: rival.accuses(judge, each, outcomes[each.id]))

    while tally.seconds <= limits.each and (some := list(islice(cases, _TOGETHER))):
        for case, outcomes in zip(some, pool.submit(some).outcomes(), strict=True):
            see(Judge(case, confirms=False), outcomes)
    return tally


def _ran(outcome: Outcome | None) -> bool:
    if outcome is not None and outcome.status is Status.OURS:
        raise InternalError(f"{outcome.target}: {outcome.detail}")
    return outcome is not None and outcome.status not in (Status.NOT_RUN, Status.MISUSED)


class _Sparing(TurnRunner):
    """Gives no more cases to what is found: the oracle confirms each failure, which takes long."""

    found: Collection[str] = ()

    def begin(self, *tasks: TurnJob) -> None:
        super().begin(*(replace(each, resting=tuple(self.found)) for each in tasks))


def targets_of(pack: Pack, base: str, mutants: Sequence[Mutant]) -> tuple[Target, list[Target]]:
    """Return a target for the correct kernel, and the same one for each planted bug that must be found there."""
    kernel = pack.kernel(base)
    changed = [(mutant, expand([mutant.apply(kernel)])) for mutant in mutants]
    for place, target in enumerate(expand([kernel])):
        same = ((mutant, targets[place]) for mutant, targets in changed)
        wrong = [each for mutant, each in same if any(fnmatchcase(each.id, glob) for glob in mutant.targets)]
        if target.unavailable() is None and len(wrong) == len(mutants):
            return target, wrong
    raise UsageError(f"{base}: no target runs here on which all of its planted bugs must be found")
