"""Judging the solutions of one problem together, with the same cases and exact values. If no formula is read from the
reference, or at the shapes that come with it, a replay of the reference judges, which is weaker than a formula."""

from __future__ import annotations

import math
import secrets
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console

from fuzz.campaign.search.deadline import LAST_S, Stopping
from fuzz.campaign.search.runner import MOST_HANGS
from fuzz.campaign.search.stopping import GRACE_S, Interruption, RunLimits
from fuzz.campaign.search.turn_runner import Terms
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
from fuzz.core.execute.pool import Pool, WorkerPool
from fuzz.core.generate.dims import MOST_WORK, USUAL_WORK
from fuzz.core.generate.observed import words_of
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.turn import Made
from fuzz.core.judge.values import problem_of
from fuzz.findings.book import book_in
from fuzz.references.derive import ANY, FINITE, Derived
from fuzz.references.dims import UnreadableError, parsed, shapes_text
from fuzz.references.examples import DRAWN, samples_of, seen_in
from fuzz.references.parameters import titled
from fuzz.references.replay.cases import DTYPES, WEAKER, ReplayError
from fuzz.references.scope import UnknownStepError
from fuzz.report.brief import Provenance
from fuzz.report.console import print_lines
from fuzz.report.outline import run_outline
from fuzz.report.totals import not_exercised
from fuzz.report.wrapping import wrapped_text
from fuzz.tasks.check.reference import contract_of, with_names
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.full import at_full_size
from fuzz.tasks.judge.own import affordable, in_other_mode, own_problem, own_shapes, with_causes, with_mode, with_own
from fuzz.tasks.judge.replay import ReplayPlan, chosen, laws_of, replay_of
from fuzz.tasks.judge.ruling import (
    VERSION,
    Judged,
    Ruling,
    SolutionRuling,
    failures_told,
    in_modes,
    in_time,
    not_given,
    not_in_time,
    solution_ruling,
    summary,
    worst_of,
)
from fuzz.tasks.judge.written import derived, held, write_pack
from fuzz.tasks.readers.formats import problems_of
from fuzz.tasks.readers.kernelbench import LAST
from fuzz.tasks.readers.problem import Statement, UnreadProblemError
from fuzz.tasks.readers.solution import Solutions, solutions_of
from fuzz.tasks.readers.source import TaskError, files_in
from fuzz.tasks.replay import PROBED_ONE_IN
from fuzz.tasks.task import Data, Task, drive
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.summation import NumericsError
from oracles.truth import Truth

_T = TypeVar("_T")
_VARIED = 4
"""If every dimension that is not fixed can have this extent, a case has room to vary the dimensions."""
_AROUND_S = 10.0
"""The seconds for finding out what changes a failure that is not shrunk."""
_UNEXERCISED = (
    "not exercised by a replay: strides, other ranks, the order of sums; failures are not explained, nor kept as cases"
)
_OTHERS = "not exercised, as only the shapes that come with the task were asked for: other shapes"
_UNPROBED = "not exercised, as a case takes long: other ways to make the same call"
_PROBED = 4
"""With fewer cases, none is called in other ways too: a call with other values takes another replay."""
_UNREAD = "not exercised, as the reference is neither read nor replayed there: other shapes"
_TURNS, _MOST_ELEMENTS, _FEW, _DIGITS = 3, 1024, 2, 2


def judged(
    asked: Asked, screen: Console, width: int, *, verbose: bool,
    read: Callable[[Asked], tuple[Statement, Derived]] | None = None, began: float | None = None,
) -> Judged:  # fmt: skip
    """Return the ruling on the solutions, with text in lines of at most `width` columns. A time limit counts from
    `began`, a time of the monotonic clock, by default now. Raises TaskError for what cannot be read."""
    read = read or read_problem
    if asked.max_time is None:
        return _judged(asked, screen, width, read, Interruption(), verbose=verbose)
    used = 0.0 if began is None else time.monotonic() - began
    with Stopping(max(asked.max_time - used, 0.0), notes_at=0.0) as stop:
        made = stop.within(lambda: _judged(asked, screen, width, read, stop, verbose=verbose), LAST_S)
    return made or unjudged(asked, width)


def unjudged(asked: Asked, width: int) -> Judged:
    """Return the ruling for a time limit that ended before anything was judged."""
    [reason] = not_in_time(asked, ["any case"])
    rulings = tuple(SolutionRuling(words, "undecided", 0, 0, {}, (), reason) for words in files_in(asked.solutions))
    ruling = Ruling(
        VERSION, "undecided", asked.against, "", "formula", "", asked.seed or 0, 0, "", {}, {}, {}, (), (reason,),
        rulings, "", "",
    )  # fmt: skip
    return Judged(ruling, wrapped_text(summary(ruling, asked.max_time or 0.0), width))


def _judged(
    asked: Asked, screen: Console, width: int, read: Callable[[Asked], tuple[Statement, Derived]], stop: Interruption,
    *, verbose: bool,
) -> Judged:  # fmt: skip
    def begun() -> tuple[Statement, Solutions, Prepared]:
        with screen.status(f"reading {asked.against} ..."):
            problem, found = read(asked)
        solutions = solutions_of(asked.solutions, problem, asked.against)
        with screen.status("trying what is taken ..."):
            return problem, solutions, prepared(asked, problem, found, solutions)

    try:
        if (ahead := stop.within(begun, 0.0)) is None:
            return unjudged(asked, width)
    except UnreadProblemError as error:
        return judged_by_replay(asked, error.problem, str(error), screen, width, stop)
    problem, solutions, ready = ahead
    found, folder, kernels, targets = ready.found, ready.folder, ready.task.kernels, ready.task.targets
    print_lines(screen, [*filter(None, (found.said, found.left_out, problem.kept))])
    # The seed is drawn only now, so that no solution can know it.
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    laws = laws_of(targets)
    book, limits = book_in(folder / "findings", seed), RunLimits(None, asked.cases)
    session = Session(
        targets, book, Terms(kernels, laws, twin_one_in=PROBED_ONE_IN, axes=True), seed, limits, screen=screen,
        case_limit=asked.case_limit, interruption=stop, longest=RunLimits(asked.max_time).longest_case,
    )  # fmt: skip
    # Before processes are forked, so that they share the tables of the search instead of making their own.
    first = [made for some in islice(batches(Search(found.op.name, seed, kernels)), _TURNS) for made in some]
    origin = Provenance(seed, command_of(asked, seed), ("--pack", str(folder)), numbered=True)
    began = time.monotonic()
    with session:
        floors = dict[str, float]()

        def meanwhile() -> None:
            floors.update(_detection_floors([made.case for made in first], ready.task.contract))

        with stop if asked.max_time is None else nullcontext():
            driven = stop.within(lambda: drive(ready.task, session, meanwhile=meanwhile), 2 * GRACE_S)
            session.tally.note_waiting()
        interrupted = driven is None or stop.wanted
        elapsed = time.monotonic() - began
        for bucket in [each for each in book.buckets.values() if each.kernel in ready.untried]:
            del book.buckets[bucket.name]  # a kernel that refuses an input has no bug for that
        if not stop.terminated:
            # All failures are told together, at the end. Explaining gets half of the time left; deciding follows.
            seconds = min(asked.explain_s or _AROUND_S, stop.left / 2 / (len(book.buckets) + 1))
            stop.within(lambda: session.explain(seconds, None, shrinks=asked.explain_s is not None))
        undeclared = session.conclude(elapsed)
    outline = run_outline("judge", book, targets, session.tally, origin, interrupted=interrupted, usual=session.usual)
    session.tell_troubles()
    found_of = {
        kernel: solution_ruling(
            words, kernel, session.tally, book, None if driven is None else driven.measuring, ready.accepting,
            untried=ready.untried.get(kernel, ""), refuses=ready.refuses.get(kernel, ""), interrupted=interrupted,
            beyond=None if driven is None else driven.beyond.get(kernel),
        )
        for kernel, (words, _) in solutions.items()
    }  # fmt: skip
    missed = [f"more than {counted(session.tally.cases, 'case')}"] if interrupted else []
    rulings = looked(asked, problem, solutions, found_of, seed, screen, stop, missed)
    rulings = tuple(in_modes(each, *problem.modes) for each in rulings)
    probes = {law: session.tally.laws[law] for law in laws if law != GHOST}
    never = tuple(dict.fromkeys((*outline.outcome.never, *problem.never)))
    ruling = Ruling(
        VERSION, worst_of(each.verdict for each in rulings),
        asked.against, found.said, "formula", "", seed, session.tally.cases, str(folder),
        probes, floors, outline.outcome.largest, never,
        (*_unseen(not_exercised(undeclared), laws, _unvaried(found.op, first)),
         *not_given(session.tally, targets), *filter(None, [found.left_out]), *problem.remarks,
         *not_in_time(asked, missed)),
        rulings, *problem.modes,
    )  # fmt: skip
    lines = [failure.told(verbose=verbose, width=width) for failure in outline.failures]
    shaken = outline.outcome.code in (Exit.INTERNAL, *(() if stop.is_over else (Exit.INTERRUPTED,)))
    text = "\n\n".join([*lines, wrapped_text(summary(ruling, elapsed, verbose=verbose), width)])
    return Judged(ruling, text, outline.outcome.code if shaken else None)


def judged_by_replay(
    asked: Asked, problem: Statement, why: str, screen: Console, width: int, stop: Interruption
) -> Judged:  # fmt: skip
    """Judge the solutions of a problem by a replay, because its reference cannot be read (`why`) or only its own inputs
    were asked for. If the reference takes no inputs but its own, judge by these. Raises TaskError."""
    solutions = solutions_of(asked.solutions, problem, asked.against)
    try:
        replay = replay_of(asked, problem, solutions)
        seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed  # not before: no solution can know it
        return _replayed(asked, problem, why, screen, width, replay, solutions, seed, stop)
    except (ReplayError, TaskError, UnreadableError) as error:
        is_ours = isinstance(error, TaskError)
        refusal = str(error) if is_ours else f"{asked.against}: {error}" if isinstance(error, ReplayError) else why
        if problem.module is None or problem.own is not None:
            raise TaskError(refusal or str(error)) from error
        try:
            own = own_problem(asked.against)
        except TaskError as worse:
            raise TaskError(f"{refusal}; at the shapes that come with it: {worse}") from error
    return judged_by_replay(asked, own, why, screen, width, stop)


def _replayed(
    asked: Asked, problem: Statement, why: str, screen: Console, width: int, replay: ReplayPlan, solutions: Solutions,
    seed: int, stop: Interruption,
) -> Judged:  # fmt: skip
    title, dims = titled(replay.meant.asked.reference), replay.meant.asked.dims
    sizes = replay.meant.asked.fixed if problem.own else {}
    shapes = shapes_text({each: [sizes.get(dim, dim) for dim in some] for each, some in dims.items()})
    but = f", but for {problem.changed}" if problem.changed else ""
    how = ", ".join([
        *([f"at the shapes that come with it{but}"] if problem.own else []),
        *([f"as it cannot be read: {why.removeprefix(f'{title} cannot be read: ')}"] if why else []),
        *([f"kept as in {DRAWN}: {words_of(replay.meant.kept)}"] if replay.meant.kept else []),
    ])  # fmt: skip
    returns = ", ".join(each.name for each in replay.op.outputs)
    said = f"{title}: {shapes} -> {returns}, replayed, {how}"
    print_lines(screen, [said, WEAKER])
    began = time.monotonic()
    cases = affordable(replay, seed) if problem.own and why else asked.replays
    laws = laws_of(replay.targets) if cases >= min(_PROBED, asked.replays) else ()
    run = replay.run(cases, seed, laws, screen, asked.replay_s, stop)
    seen, cases = run.replay, run.replay.cases
    more = f"more than {counted(cases, 'case')}"
    missed = [more] if stop.is_over else []
    few = f"not exercised, as a case takes long: {more}" if cases < asked.replays and not missed else ""
    found = replay.rulings(run)
    rulings = looked(asked, problem, solutions, found, seed, screen, stop, missed)
    rulings = tuple(in_modes(each, *problem.modes) for each in rulings)
    elapsed = time.monotonic() - began
    floors = {dtype: float(f"{np.median(each):.1e}") for dtype, each in sorted(seen.floors.items()) if each}
    others = (_UNREAD if why else _OTHERS) if problem.own else ""
    never = others, replay.meant.asked.left_out, seen.came.never(DTYPES)
    ruling = Ruling(
        VERSION, worst_of(each.verdict for each in rulings), asked.against, said, "replay", WEAKER, seed, cases,
        str(replay.folder), {law: run.tally.laws[law] for law in laws}, floors, {}, problem.never,
        (_UNEXERCISED, *filter(None, (*never, few)), *([] if laws else [_UNPROBED]), *problem.remarks,
         *not_in_time(asked, missed)),
        rulings, *problem.modes,
    )  # fmt: skip
    told = [text for kernel, each in zip(found, rulings, strict=True) for text in failures_told(kernel, each.failures)]
    texts = (wrapped_text(each, width) for each in (*told, summary(ruling, elapsed)))
    return Judged(ruling, "\n\n".join(texts))


def looked(
    asked: Asked, problem: Statement, solutions: Solutions, found: Mapping[str, SolutionRuling], seed: int,
    screen: Console, stop: Interruption, missed: list[str],
) -> tuple[SolutionRuling, ...]:  # fmt: skip
    """Return the rulings, with what replays add: at the shapes that come with the problem, in the other mode of a
    module, at full size, and with possible causes of a failure removed. Whatever time does not suffice for is appended
    to `missed`; once a stop is wanted, nothing more is begun."""
    if stop.wanted:
        return in_time(asked, [*found.values()], missed)

    def told(what: str, work: Callable[[], _T], there: object) -> _T | None:
        made = stop.within(work)
        if made is None and there:
            missed.append(what)
        return made

    own = told(
        "the task's own shapes", lambda: {} if problem.own else own_shapes(asked, problem, solutions, seed, screen),
        problem.module and not problem.own,
    )  # fmt: skip
    other = told(
        "the other mode", lambda: in_other_mode(asked, problem, solutions, seed, screen), problem.in_other_mode
    )
    rulings = tuple(unless_changed(with_own(each, (own or {}).get(kernel)), problem) for kernel, each in found.items())
    whole = told(
        "the task's full size", lambda: at_full_size(asked, problem, solutions, rulings, seed), problem.changed
    )
    rulings, other = whole or rulings, other or {}
    rulings = tuple(with_mode(each, problem, other.get(kernel)) for kernel, each in zip(found, rulings, strict=True))
    caused = stop.within(lambda: with_causes(asked, problem, solutions, rulings, seed, screen))
    return in_time(asked, caused or rulings, missed)


def unless_changed(ruling: SolutionRuling, problem: Statement) -> SolutionRuling:
    """Return the ruling. If the task's shapes were made smaller, one that is wrong only at others becomes undecided."""
    if not problem.changed or ruling.verdict != "wrong":
        return ruling
    return replace(ruling, verdict="undecided", reason=f"it fails, but at none of the task's shapes: {problem.changed}")


def _unseen(undeclared: list[str], laws: tuple[str, ...], always: Mapping[str, int]) -> tuple[str, ...]:
    extents = ", ".join(f"any {dim} but {size}" for dim, size in always.items())
    few = [f"not exercised, as that many terms take too long: {extents}"] if extents else []
    probes = [] if STREAM in laws else [f"not exercised, as there is no GPU: the probe {STREAM}"]
    return (*undeclared, *few, *probes)


def read_problem(asked: Asked) -> tuple[Statement, Derived]:
    """Return the problem and its op. Among the forms of the problem, take the first with room to vary all dimensions,
    else the one with the least work. Raises UnreadProblemError if the problem must be judged by a replay."""
    if asked.own:
        raise UnreadProblemError("", own_problem(asked.against))
    refusal: TaskError | None = None
    best: tuple[int, Statement, Derived] | None = None
    for problem in problems_of(asked.against, asked.solutions):
        if problem.module is not None and problem.module.one_seed:  # weights that are no inputs are in no formula
            raise UnreadProblemError("it has more or larger tensors than a case", own_problem(asked.against))
        if asked.shapes is not None:
            dims, numbers = parsed(asked.shapes, twice=True)
            shapes = {name: " ".join(words) for name, words in dims.items()}
            problem = replace(problem, shapes=shapes or problem.shapes, numbers=numbers)
        if best is not None and problem.tier == LAST:
            break  # which extents a module refuses need not be known
        if best is not None and problem.tier == best[1].tier:
            continue
        try:
            found = derived(problem, asked.values, any_values=asked.any_values)
        except TaskError as error:
            refusal = refusal or error
            if isinstance(error.__cause__, UnknownStepError):  # other extents do not help
                break
            continue
        extents = {**dict.fromkeys(found.op.named, _VARIED), **found.op.fixed}
        work = found.op.work(extents)
        smallest = {**dict.fromkeys(found.op.named, 1), **found.op.fixed}
        if problem.kept and refusal is not None and found.op.work(smallest) > USUAL_WORK:
            raise UnreadProblemError(f"{refusal}; with extents {problem.kept}, each case takes too long", problem)
        if work <= MOST_WORK and _elements(found.op, extents) <= USUAL_WORK:
            return problem, found
        if best is None or work < best[0]:
            best = work, problem, found
    if best is not None:
        return best[1:]
    assert refusal is not None
    raise refusal


def _elements(op: Op, extents: Mapping[str, int]) -> int:
    """Return the most elements that an input has; the judge bounds the error of each element."""
    return max(math.prod(extents.get(dim, 1) for dim in each.axes) for each in op.inputs)


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


@dataclass(frozen=True)
class Prepared:
    """What is needed to search: the op, the pack, and what each solution takes."""

    found: Derived
    folder: Path
    task: Task
    accepting: Mapping[str, Accepts]
    """What solutions do with strides, dtypes and ranks that they do not declare, by target id."""
    untried: Mapping[str, str]
    """Why a kernel that refuses every case is not judged, by kernel: no case has the problem's own extents."""
    refuses: Mapping[str, str]
    """The extents that come with the problem and that a kernel refuses, in words, by kernel; '' for none."""


def prepared(asked: Asked, problem: Statement, found: Derived, solutions: Solutions) -> Prepared:
    """Write the pack, and try what each solution takes. If one of them refuses some numbers of dimensions, all are
    given one number that every solution takes."""
    folder, targets = _written(asked, problem, found, solutions)
    accepting = _accepting(targets, found, asked)
    rank = _common_rank([*accepting.values()])
    if rank is not None:
        problem = replace(problem, shapes=with_names(found, rank - len(found.op.inner)))
        found = derived(problem, asked.values, any_values=asked.any_values)
        folder, targets = _written(asked, problem, found, solutions)
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
    always = {} if problem.draw is None else seen_in(found, samples_of(problem.draw))
    task = Task(chosen(asked, kernels), Data((), always, DRAWN), measures=True)
    return Prepared(found, folder, task, accepting, untried, refuses)


def _written(asked: Asked, problem: Statement, found: Derived, solutions: Solutions) -> tuple[Path, tuple[Target, ...]]:
    folder = writable(asked.output) / problem.name
    own = {name: each for name, (_, each) in solutions.items()}
    with held(folder):  # others may judge solutions of the same problem now
        write_pack(folder, problem, own, found, values=asked.values, untrusted=asked.untrusted)
        kernels = [each for each in load(folder).kernels if each.name in solutions]  # earlier ones are there, too
    return folder, chosen(asked, kernels)


def _accepting(targets: Sequence[Target], found: Derived, asked: Asked) -> Mapping[str, Accepts]:
    def workers(target: Target) -> AbstractContextManager[Pool]:
        return WorkerPool(
            [target], limit=asked.case_limit, longest=RunLimits(asked.max_time).longest_case, most_hangs=MOST_HANGS
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
