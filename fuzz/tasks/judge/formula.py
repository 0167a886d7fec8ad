"""Solutions that a formula judges: what is tried of them first, what is searched, and what came of it."""

from __future__ import annotations

import secrets
import shlex
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from fuzz.campaign.search.runner import MOST_HANGS
from fuzz.campaign.search.stopping import GRACE_S, Interruption, SessionLimits
from fuzz.campaign.session import Session
from fuzz.campaign.starting import writable
from fuzz.contracts.accepts import Accepts, accepts
from fuzz.core.adapters.configured import usual
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.exits import Exit
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.probe import GHOST, STREAM
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import Pool
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.turn import Made
from fuzz.core.judge.values import problem_of
from fuzz.findings.tally import Tally
from fuzz.references.derive import ANY, FINITE, Derived
from fuzz.references.examples import seen_in
from fuzz.report.brief import Provenance
from fuzz.report.outline import session_outline
from fuzz.report.totals import not_exercised
from fuzz.tasks.check.reference import contract_of, misread_of, with_names
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.bugs import BugsOf, not_given
from fuzz.tasks.judge.replay import CASES, AxisValue, chosen, drawn, laws_of, sat, values_at_other_ranks
from fuzz.tasks.judge.ruling import NOT_SAT, Exam, JudgeResults, JudgeView, of_kernel, solution_ruling
from fuzz.tasks.judge.written import derived, held, samples_in_parts, tensors_of, write_pack
from fuzz.tasks.readers.solution import Solutions, check_calls
from fuzz.tasks.readers.statement import Statement, UnreadStatementError
from fuzz.tasks.task import Data, Task, drive
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.summation import NumericsError
from oracles.truth import Truth

_AROUND_S = 10.0
"""The seconds for finding out which changes make a failure that is not shrunk pass."""
_TURNS, _MOST_ELEMENTS, _FEW, _DIGITS = 3, 1024, 2, 2


@dataclass(frozen=True)
class FormulaJudge:
    """A formula that was read from the reference, and the solutions that it judges."""

    asked: Asked
    problem: Statement
    solutions: Solutions
    found: Derived
    folder: Path
    task: Task
    accepting: Mapping[str, Accepts]
    """What solutions do with strides, dtypes and ranks that they do not declare, by target id."""
    untried: Mapping[str, str]
    """Why a kernel that refuses every case is not judged, by kernel: no case has the problem's own extents."""
    refuses: Mapping[str, str]
    """By kernel: the text that names an extent of the statement's example inputs which the kernel refuses, and where in
    its code; '' if it takes all."""
    plain: Kernel
    """A kernel with the capabilities that every solution has before it refuses anything."""
    lost: Mapping[str, Sequence[AxisValue]]
    """For each kernel that refuses some inputs, the values of axes in those that cannot even be drawn for it."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines about what was read, and what is left out."""
        return [*filter(None, (self.found.said, self.found.left_out, self.problem.kept))]

    def run(self, seed: int, view: JudgeView, stop: Interruption) -> JudgeResults:
        """Search, explain what fails, and return the results."""
        asked, targets, laws = self.asked, self.task.targets, laws_of(self.task.targets)
        book, limits = self.task.book(self.folder / "findings", seed), SessionLimits(None, asked.cases)
        session = Session(
            targets, book, self.task.scope(laws, probed=True), seed, limits, case_limit=asked.case_limit,
            screen=view.screen, interruption=stop, longest=SessionLimits(asked.max_time).longest_case,
        )  # fmt: skip
        # Before processes are forked, so that they share the tables of the search instead of making their own.
        some = islice(batches(Search(self.found.op.name, seed, self.task.kernels)), _TURNS)
        first = [made for each in some for made in each]
        began = time.monotonic()
        with session:
            floors = dict[str, float]()

            def meanwhile() -> None:
                floors.update(_detection_floors([made.case for made in first], self.task.contract))

            with stop if asked.max_time is None else nullcontext():
                with view.phases.timed("search"):
                    driven = stop.within(lambda: drive(self.task, session, meanwhile=meanwhile), 2 * GRACE_S)
                session.tally.note_waiting()
                interrupted = driven is None or stop.wanted
                with view.phases.timed("exam"):
                    exams = stop.within(lambda: self._exams(session, laws, interrupted=interrupted)) or {}
            elapsed = time.monotonic() - began
            for bucket in [each for each in book.buckets.values() if each.kernel in self.untried]:
                del book.buckets[bucket.name]  # a kernel that refuses an input has no bug for that
            for bucket in book.buckets.values():
                if misread := misread_of(self.found, bucket.case, bucket.judgement.verdict):
                    raise UnreadStatementError(f"{asked.against} {misread}", self.problem)
            if not stop.terminated:
                # All failures are told together, at the end. Explaining gets half of the time left; deciding follows.
                seconds = min(asked.explain_s or _AROUND_S, stop.left / 2 / (len(book.buckets) + 1))
                with view.phases.timed("explain"):
                    stop.within(lambda: session.explain(seconds, None, shrinks=asked.explain_s is not None))
            undeclared = session.conclude(elapsed)
        tally = session.tally
        origin = Provenance(seed, command_of(asked, seed), ("--pack", str(self.folder)), numbered=True)
        outline = session_outline("judge", book, targets, tally, origin, interrupted=interrupted, usual=session.usual)
        session.tell_troubles()
        by_id, searched = {each.id: each for each in targets}, Search(self.found.op.name, seed, session.scope.kernels)
        bugs = BugsOf(book, tally, by_id, searched, str(self.folder))
        rulings = {
            kernel: solution_ruling(
                words, kernel, tally, book, None if driven is None else driven.measuring, self.accepting,
                untried=self.untried.get(kernel, ""), refuses=self.refuses.get(kernel, ""),
                interrupted=interrupted and not stop.is_over,
                beyond=None if driven is None else driven.beyond.get(kernel),
                bugs=[*bugs.of(kernel, solution.files)], exam=exams.get(kernel, NOT_SAT),
            )
            for kernel, (words, solution) in self.solutions.items()
        }  # fmt: skip
        unseen = [
            *_unseen(not_exercised(undeclared), laws, _unvaried(self.found.op, first)), *not_given(tally, targets),
            *filter(None, [self.found.left_out]),
        ]  # fmt: skip
        shaken = outline.outcome.code in (Exit.INTERNAL, *(() if stop.is_over else (Exit.INTERRUPTED,)))
        probes = {law: tally.laws[law] for law in laws if law != GHOST}
        return JudgeResults(
            self.found.said, tally.cases, str(self.folder), rulings, probes, floors, unseen, elapsed,
            [f"more than {counted(tally.cases, 'case')}"] if interrupted else [],
            largest=outline.outcome.largest, never=tuple(outline.outcome.never),
            told=[failure.told(verbose=view.verbose, width=view.width) for failure in outline.failures],
            code=outline.outcome.code if shaken else None, untried=self.untried,
        )  # fmt: skip

    def _exams(self, session: Session, laws: Sequence[str], *, interrupted: bool) -> Mapping[str, Exam | None]:
        """Return the exam of each kernel: none for those that passed whatever was searched, and refuse nothing."""
        clean = {each for each in self.solutions if each not in self.lost and _is_clean(of_kernel(session.tally, each))}
        broken = {line.kernel for line in session.tally.targets.values() if line.broken}
        sitting = [each for each in session.targets if each.kernel.name not in clean | broken]
        if interrupted:
            return {}
        groups = drawn(self.plain, session.seed, min(CASES, self.asked.cases), laws) if sitting else []
        board = sat(session.pool, sitting, groups, lambda: session.interruption.wanted)
        return {
            kernel: None if kernel in clean else board.exam(kernel, lost=self.lost.get(kernel))
            for kernel in self.solutions
        }


def formula_judge(asked: Asked, problem: Statement, found: Derived, solutions: Solutions) -> FormulaJudge:
    """Write the pack, and try what each solution takes. If one of them refuses some numbers of dimensions, all are
    given one number that every solution takes."""
    folder, targets = _written(asked, problem, found, solutions)
    accepting = _accepting(targets, found, asked)
    rank, plain = _common_rank([*accepting.values()]), targets[0].kernel
    others = list[AxisValue]()
    if rank is not None:
        seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
        others = values_at_other_ranks(drawn(plain, seed, CASES), rank)
        problem = replace(problem, shapes=with_names(found, rank - len(found.op.inner)))
        found = derived(problem, asked.values, any_values=asked.any_values)
        folder, targets = _written(asked, problem, found, solutions)
        plain = targets[0].kernel
    narrowed = dict[str, Kernel]()
    for target in targets:
        narrowed.setdefault(target.kernel.name, _narrowed(target.kernel, accepting.get(target.id)))
    kernels = [*narrowed.values()]
    by_kernel = {target.kernel.name: each for target in targets if (each := accepting.get(target.id)) is not None}
    untried = {
        name: f"it refuses the small numbers that stand for those of the problem: {' and '.join(each.refused)}"
        for name, each in by_kernel.items() if each.usual == "refuses" and problem.module is not None
    }  # fmt: skip
    refuses = {name: refused_example(each, problem) for name, each in by_kernel.items() if problem.module is None}
    lost = {
        name: others if "refuses" in each.ranks.values() else []
        for name, each in by_kernel.items() if each.multiple_of or each.max or "refuses" in each.ranks.values()
    }  # fmt: skip
    always = {} if problem.draw is None else seen_in(found, samples_in_parts(problem, found))
    task = Task(chosen(asked, kernels), Data((), always, problem.source), measures=True)
    return FormulaJudge(asked, problem, solutions, found, folder, task, accepting, untried, refuses, plain, lost)


def _is_clean(tally: Tally) -> bool:
    """Whether everything that was judged passed."""
    lines = [*tally.targets.values()]
    return any(each.judged for each in lines) and not any(
        each.findings or each.gave_up or each.not_run or each.broken for each in lines
    )


def _written(asked: Asked, problem: Statement, found: Derived, solutions: Solutions) -> tuple[Path, tuple[Target, ...]]:
    check_calls(solutions, problem, *tensors_of(found))
    folder = writable(asked.output) / problem.name
    own = {name: each for name, (_, each) in solutions.items()}
    with held(folder):  # others may judge solutions of the same problem now
        write_pack(folder, problem, own, found, values=asked.values, untrusted=asked.untrusted)
        kernels = [each for each in load(folder).kernels if each.name in solutions]  # earlier ones are there, too
    return folder, chosen(asked, kernels)


def _accepting(targets: Sequence[Target], found: Derived, asked: Asked) -> Mapping[str, Accepts]:
    def workers(target: Target) -> AbstractContextManager[Pool]:
        return WorkerPool(
            [target], limit=asked.case_limit, longest=SessionLimits(asked.max_time).longest_case, most_hangs=MOST_HANGS
        )

    def contract(dtype: str) -> Contract:
        return contract_of(found, "torch", (dtype,), strict=asked.values == ANY)

    there = [target for target in usual(targets) if target.unavailable() is None]
    each = {target.id: accepts(workers, target, contract, multiples=True) for target in there}
    return {name: beside for name, beside in each.items() if beside is not None}


def _common_rank(some: Sequence[Accepts]) -> int | None:
    """Return the number of dimensions nearest to two that all solutions take; None if no solution refuses any number,
    or if there is no common one."""
    if not any("refuses" in each.ranks.values() for each in some):
        return None
    taken = [{*each.taken_ranks} for each in some if each.ranks]
    return min({*taken[0]}.intersection(*taken), key=lambda rank: abs(rank - 2), default=None)


def _narrowed(kernel: Kernel, beside: Accepts | None) -> Kernel:
    """Return the kernel, limited to the extents that it does not refuse."""
    if beside is None or not (beside.multiple_of or beside.max):
        return kernel
    able = replace(kernel.capabilities, multiple_of=beside.multiple_of, max=beside.max)
    return replace(kernel, capabilities=able)


def refused_example(beside: Accepts, problem: Statement) -> str:
    """Return which extent of the problem's examples a solution refuses, and where; '' if it takes all."""
    for sizes in problem.examples:
        for dim, size in sizes.items():
            if size % beside.multiple_of.get(dim, 1) or size > beside.max.get(dim, size):
                return f"it refuses {dim} = {size}, which comes with the problem: {' and '.join(beside.refused)}"
    return ""


def _unseen(undeclared: list[str], laws: tuple[str, ...], always: Mapping[str, int]) -> tuple[str, ...]:
    extents = ", ".join(f"any {dim} but {size}" for dim, size in always.items())
    few = [f"not exercised, as that many terms take too long: {extents}"] if extents else []
    probes = [] if STREAM in laws else [f"not exercised, as there is no GPU: the probe {STREAM}"]
    return (*undeclared, *few, *probes)


def _detection_floors(first: Sequence[Case], contract: Contract) -> Mapping[str, float]:
    """Return the smallest relative error of an output element that is noticed in half of the elements of ordinary
    cases, by the dtype of the first input."""
    shares = defaultdict[str, list[float]](list)
    cases = sorted((case for case in first if case.elements), key=lambda case: case.elements)
    # A case may have more elements through its weights alone; then the smallest cases are taken.
    for case in [each for each in cases if each.elements <= _MOST_ELEMENTS] or cases[:_FEW]:
        try:
            found = Truth(problem_of(case), confirms=False).enclosures(contract, case.structured)
        except NumericsError:  # the case contradicts the contract: it is not judged
            continue
        for each in found.values():
            shares[next(iter(case.inputs.values())).dtype] += each.shares()
    return {dtype: float(f"{np.median(some):.{_DIGITS - 1}e}") for dtype, some in sorted(shares.items()) if some}


def _unvaried(op: Op, first: Sequence[Made]) -> Mapping[str, int]:
    """Return, with their extent, the dimensions that are not fixed but have the same extent in all first cases of a
    search: more terms would take too long."""
    seen = defaultdict[str, set[int]](set)
    for draw in (made.draw for made in first if made.draw is not None):
        for dim, size in draw.sizes.items():
            seen[dim].add(size)
    return {dim: min(sizes) for dim, sizes in seen.items() if len(sizes) == 1 and dim not in op.fixed}


def command_of(asked: Asked, seed: int) -> str:
    """Return the command line that judges the same solutions again, without options for explaining."""
    values = None if asked.values == FINITE else asked.values
    options = [
        ("--against", asked.against), ("--shapes", asked.shapes), ("--values", values),
        *(("--target", each) for each in asked.targets), ("--seed", seed), ("--max-cases", asked.cases),
        ("--output", asked.output), ("--case-limit", asked.case_limit),
    ]  # fmt: skip
    words = [*asked.solutions, *(word for name, value in options if value is not None for word in (name, str(value)))]
    words += [*(["--any-values"] if asked.any_values else []), *([] if asked.untrusted else ["--trusted"])]
    return shlex.join(["kernelfuzz", "judge", *words])
