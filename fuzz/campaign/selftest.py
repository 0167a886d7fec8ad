"""The hunt for mutants: each is searched for on all targets where it must be killed, together with its base kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rich.console import Console
from rich.table import Table

from fuzz.campaign.search.schedule import one_by_one
from fuzz.campaign.search.stopping import Interruption, late
from fuzz.campaign.search.turn_runner import CallLog, SearchScope, TurnRunner
from fuzz.campaign.starting import is_broken, not_running, started
from fuzz.core.adapters.pack import Pack
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.kernel import Kernel, Mutant
from fuzz.core.base.selection import SelectionError, keyword
from fuzz.core.base.text import counted
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import declared
from fuzz.explain.attribute.history import Need, history_line, recognise
from fuzz.explain.trial.trial import FreshProcess
from fuzz.findings.tally import whereabouts
from fuzz.report.console import bare_table

_TWIN_ONE_IN = 2
"""One case in this many gets a twin: more than in a search, since a mutant must be found in few cases."""


@dataclass
class MutantHunt:
    """The hunt for one mutant, whose base must pass, on one target."""

    mutant: Mutant
    target: Target
    base: Target
    cases: int = 0
    """The number of cases until the mutant was killed, or in all."""
    killed_by: Judgement | None = None
    evidence: Case | None = None
    """The case that killed the mutant."""
    calls: CallLog = field(default_factory=lambda: CallLog(tuple))
    where: str = ""
    trouble: str = ""
    """The reason why the mutant does not count as killed here."""

    @property
    def ok(self) -> bool:
        return self.killed_by is not None and not self.trouble

    def see(self, judge: EntryJudge) -> None:
        """Judge mutant and base on one case, and by its law if it is a twin. The hunt ends if the base fails, or if the
        mutant fails where its trigger does not hold."""
        if self.killed_by is not None or self.trouble or self.target.id not in judge.outcomes:
            return
        self.cases += 1
        judgement = judge.judge(self.target)
        self.calls.judged(judge.entry.case, [judgement])
        if not judgement.verdict.is_finding:
            return
        base = judge.judge(self.base)
        case = judge.evidence(judgement)
        self.where = whereabouts(case)
        if base.verdict.is_finding:
            self.trouble = f"its base fails on the same case: {base.verdict.value}"
        elif judgement.verdict.value not in self.mutant.caught_as:
            self.trouble = f"caught as {judgement.verdict.value}, expected {' or '.join(self.mutant.caught_as)}"
        elif self.mutant.fails_when is not None and not self.mutant.fails_when(Frame(case).n):
            self.trouble = f"fails where the defect cannot show ({self.mutant.trigger})"
        else:
            self.killed_by, self.evidence = judgement, case

    def explain(self) -> None:
        """Check that a mutant which needs earlier calls passes on its case alone, and find those calls."""
        if self.killed_by is None or self.evidence is None:
            return
        with WorkerPool([self.target]) as pool:
            trial = FreshProcess(pool, self.target, self.evidence, self.killed_by)
            found = recognise(
                trial.fails, self.evidence, self.calls.before((self.killed_by.target, self.killed_by.case))
            )
        if found.need is Need.HISTORY:
            self.where = history_line(found.history, self.evidence, f"{self.where}, needs history: fails")
        else:
            self.trouble = f"expected to need history: {found.need.value}"


@dataclass
class MutantResult:
    """The hunts for one mutant, on all of its targets."""

    mutant: Mutant
    hunts: list[MutantHunt] = field(default_factory=list)
    not_run: str = ""
    """The reason why one of the targets did not run."""

    @property
    def passed(self) -> bool:
        """Whether the mutant was killed on all of its targets, for the right reason, and its base passed."""
        return bool(self.hunts) and not self.not_run and all(each.ok for each in self.hunts)

    @property
    def failed(self) -> bool:
        """Whether the mutant survived on a target, or was killed for another reason."""
        return any(not each.ok for each in self.hunts)


def chosen_mutants(pack: Pack, expression: str | None) -> Sequence[Mutant]:
    """Return the mutants whose names match the expression. Raises SelectionError if there are none."""
    matches = keyword(expression) if expression else lambda name: True
    mutants = [mutant for mutant in pack.mutants if matches(mutant.name)]
    if not pack.mutants:
        raise SelectionError(f"{pack.path} plants no bugs: its pack.py defines no MUTANTS")
    if not mutants:
        raise SelectionError(
            f"no mutant matches -k {expression!r}; there are: {', '.join(m.name for m in pack.mutants)}"
        )
    return mutants


def hunt(
    pack: Pack,
    mutant: Mutant,
    seed: int,
    max_cases: int,
    jobs: int,
    err: Console,
    stop: Interruption,
) -> MutantResult:
    """Search until every target of the mutant has killed it, the limit of cases is reached, or a stop is wanted."""
    base = pack.kernel(mutant.base)
    pairs = zip(expand([mutant.apply(base)]), expand([base]), strict=True)
    hunts = [
        MutantHunt(mutant, target, twin)
        for target, twin in pairs
        if any(fnmatchcase(target.id, pattern) for pattern in mutant.targets)
    ]
    targets = [target for each in hunts for target in (each.target, each.base)]
    with started(targets, jobs, err) as pool:
        missing = not_running(pool)
        broken = {name: reason for name, reason in missing.items() if is_broken(pool, name)}
        for each in hunts:
            each.trouble = next((broken[each.id] for each in (each.target, each.base) if each.id in broken), "")
        result = MutantResult(mutant, [each for each in hunts if each.trouble or each.target.id not in missing])
        result.not_run = next((reason for name, reason in missing.items() if name not in broken), "")
        pool.watch = late(lambda: stop.overdue)
        if result.hunts:
            _search(pool, base, result.hunts, seed, max_cases, stop)
    for each in result.hunts:
        if each.killed_by is None and not each.trouble:
            each.trouble = f"survived {counted(each.cases, 'case')}"
        elif mutant.needs_history:
            each.explain()
    return result


def _search(
    pool: WorkerPool, base: Kernel, hunts: Sequence[MutantHunt], seed: int, max_cases: int, stop: Interruption
) -> None:
    """Take turns of a search for the base until each hunt has ended."""
    mutant, targets = hunts[0].mutant, [target for each in hunts for target in (each.target, each.base)]
    laws = declared(each.target.kernel for each in hunts)

    def see(judge: EntryJudge) -> None:
        for each in hunts:
            each.see(judge)

    scope = SearchScope(
        [base], laws, ([target.id for target in targets],), twin_one_in=_TWIN_ONE_IN, guided=mutant.of_size
    )  # fmt: skip
    turn_runner = TurnRunner(pool, targets, scope, see)
    for _ in one_by_one(turn_runner, base.op, seed, max_cases, big_first=mutant.big):
        if stop.wanted or all(each.killed_by or each.trouble for each in hunts):
            return


@dataclass(frozen=True)
class HuntedOn:
    """The result of hunting a mutant on one target."""

    target: str
    cases: int
    verdict: str
    """The verdict that killed the mutant, with the law if there is one; '' if it was not killed."""
    where: str
    trouble: str
    """The reason why the mutant does not count as killed on the target."""


@dataclass(frozen=True)
class Hunted:
    """The result of hunting a mutant: the record that processes return and that `--json` writes."""

    mutant: str
    base: str
    trigger: str
    provenance: str
    passed: bool
    failed: bool
    """Whether the mutant survived on a target, or was killed for another reason."""
    not_run: str
    """The reason why one of the targets did not run."""
    targets: tuple[HuntedOn, ...]


def hunted(result: MutantResult) -> Hunted:
    """Return the record of a result."""
    mutant, found = result.mutant, list[HuntedOn]()
    for each in result.hunts:
        killed = each.killed_by
        verdict = f"{killed.verdict.value} {killed.broken_law_name}".rstrip() if killed is not None else ""
        found.append(HuntedOn(each.target.id, each.cases, verdict, each.where, each.trouble))
    return Hunted(
        mutant.name, mutant.base, mutant.trigger, mutant.provenance, result.passed, result.failed, result.not_run,
        tuple(found),
    )  # fmt: skip


def mutant_table(results: Sequence[Hunted]) -> Table:
    """Return a table: where each mutant was killed, after how many cases, and by which verdict."""
    table = bare_table()
    for column in ("mutant", "base"):
        table.add_column(column, no_wrap=True)
    for column in ("killed on", "cases"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("caught as, on", overflow="fold")
    for result in results:
        killed = [each for each in result.targets if each.verdict and not each.trouble]
        cases = [str(each.cases) for each in killed]
        spread = f"{min(cases, key=int)}..{max(cases, key=int)}" if len(set(cases)) > 1 else "".join(cases[:1])
        counts = f"{len(killed)} of {counted(len(result.targets), 'target')}"
        table.add_row(
            result.mutant, result.base, counts, spread, _how(result), style="" if result.passed else "red"
        )  # fmt: skip
    return table


def _how(result: Hunted) -> str:
    troubles = {f"{each.target}: {each.trouble}" for each in result.targets if each.trouble}
    if troubles:
        return "; ".join(sorted(troubles))
    if result.not_run:
        return f"NOT_RUN: {result.not_run}"
    verdicts = sorted({each.verdict for each in result.targets if each.verdict})
    return f"{', '.join(verdicts)} on {result.targets[0].where}"
