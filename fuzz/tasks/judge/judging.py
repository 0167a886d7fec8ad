"""Judging the solutions of one problem together, with the same cases and exact values. If no formula is read from the
reference, or at the shapes that come with it, a replay of the reference judges, which is weaker than a formula."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from rich.console import Console

from fuzz.campaign.search.deadline import LAST_S, Stopping
from fuzz.campaign.search.stopping import Interruption
from fuzz.core.generate.dims import MOST_WORK, USUAL_WORK
from fuzz.references.derive import Derived
from fuzz.references.dims import UnreadableError, parsed
from fuzz.references.replay.cases import ReplayError
from fuzz.references.scope import UnknownStepError
from fuzz.report.console import print_lines
from fuzz.report.wrapping import wrapped_text
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.formula import FormulaJudge, formula_judge
from fuzz.tasks.judge.full import at_full_size
from fuzz.tasks.judge.own import in_other_mode, own_shapes, own_statement, with_causes, with_mode, with_own
from fuzz.tasks.judge.replay import ReplayJudge, replay_of
from fuzz.tasks.judge.ruling import (
    EXIT_OF,
    NOT_SAT,
    VERSION,
    Judged,
    JudgeView,
    Ruling,
    SolutionRuling,
    in_modes,
    in_time,
    not_in_time,
    scored,
    worst_of,
)
from fuzz.tasks.judge.words import BY_REPLAY, headline_of, summary
from fuzz.tasks.judge.written import derived
from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.kernelbench import LAST
from fuzz.tasks.readers.solution import Solutions, solutions_of
from fuzz.tasks.readers.source import TaskError, UnreadSolutionsError, files_in
from fuzz.tasks.readers.statement import Statement, UnreadStatementError
from oracles.op import Op

_T = TypeVar("_T")
_VARIED = 4
"""If every dimension that is not fixed can have this extent, a case has room to vary the dimensions."""


def judged(
    asked: Asked, screen: Console, width: int, *, verbose: bool,
    read: Callable[[Asked], tuple[Statement, Derived]] | None = None, began: float | None = None,
) -> Judged:  # fmt: skip
    """Return the ruling on the solutions, with text in lines of at most `width` columns. A time limit counts from
    `began`, a time of the monotonic clock, by default now. Raises TaskError for what cannot be read."""
    read, view = read or read_statement, JudgeView(screen, width, verbose)
    if asked.max_time is None:
        return _judged(asked, view, read, Interruption())
    used = 0.0 if began is None else time.monotonic() - began
    with Stopping(max(asked.max_time - used, 0.0), notes_at=0.0) as stop:
        made = stop.within(lambda: _judged(asked, view, read, stop), LAST_S)
    return made or unjudged(asked, width)


def unjudged(asked: Asked, width: int) -> Judged:
    """Return the ruling for a time limit that ended before anything was judged."""
    [reason] = not_in_time(asked, ["any case"])
    words = files_in(asked.solutions)
    rulings = [SolutionRuling(each, "undecided", 0, 0, {}, (), reason, exam=NOT_SAT) for each in words]
    ruling = Ruling(
        VERSION, "undecided", asked.against, "", "formula", "", asked.seed or 0, 0, "", {}, {}, {}, (), (reason,),
        tuple(replace(each, headline=headline_of(each, "")) for each in rulings), "", "", EXIT_OF["undecided"], {},
    )  # fmt: skip
    return Judged(ruling, wrapped_text(summary(ruling, asked.max_time or 0.0), width))


def _judged(
    asked: Asked, view: JudgeView, read: Callable[[Asked], tuple[Statement, Derived]], stop: Interruption
) -> Judged:
    """Judge the solutions that can be read. Raises UnreadSolutionsError if none can."""
    try:
        return _judged_all(asked, view, read, stop)
    except UnreadSolutionsError as error:
        left = tuple(each for each in files_in(asked.solutions) if each not in error.reasons)
        if not left:
            raise
        unread = replace(view, unread={**view.unread, **error.reasons})
        return _judged(replace(asked, solutions=left), unread, read, stop)


def _judged_all(
    asked: Asked, view: JudgeView, read: Callable[[Asked], tuple[Statement, Derived]], stop: Interruption
) -> Judged:
    """Judge by a formula if one can be read, else by a replay."""

    def begun() -> FormulaJudge:
        with view.screen.status(f"reading {asked.against} ..."), view.phases.timed("read"):
            problem, found = read(asked)
        solutions = solutions_of(asked.solutions, problem, asked.against)
        with view.screen.status("trying what is taken ..."), view.phases.timed("try"):
            return formula_judge(asked, problem, found, solutions)

    try:
        by = stop.within(begun, 0.0)
    except UnreadStatementError as error:
        return _judged_by_replay(asked, error.statement, str(error), view, stop)
    if by is None:
        return unjudged(replace(asked, solutions=(*asked.solutions, *view.unread)), view.width)
    return _ruled(asked, by, view, stop)


def _judged_by_replay(asked: Asked, problem: Statement, why: str, view: JudgeView, stop: Interruption) -> Judged:
    """Judge the solutions of a problem by a replay, because its reference cannot be read (`why`) or only its own inputs
    were asked for. If the reference takes no inputs but its own, judge by these. Raises TaskError."""
    solutions = solutions_of(asked.solutions, problem, asked.against)
    try:
        return _ruled(asked, ReplayJudge(problem, why, replay_of(asked, problem, solutions)), view, stop)
    except UnreadSolutionsError:
        raise
    except (ReplayError, TaskError, UnreadableError) as error:
        is_ours = isinstance(error, TaskError)
        refusal = str(error) if is_ours else f"{asked.against}: {error}" if isinstance(error, ReplayError) else why
        if problem.module is None or problem.own is not None:
            raise TaskError(refusal or str(error)) from error
        try:
            own = own_statement(asked.against)
        except TaskError as worse:
            raise TaskError(f"{refusal}; at the shapes that come with it: {worse}") from error
    return _judged_by_replay(asked, own, why, view, stop)


def _ruled(asked: Asked, by: FormulaJudge | ReplayJudge, view: JudgeView, stop: Interruption) -> Judged:
    """Return the ruling of a judge, completed by what replays found. Raises TaskError."""
    print_lines(view.screen, by.lines)
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed  # only now: no solution can know it
    run, problem = by.run(seed, view, stop), by.problem
    missed = [*run.missed]
    with view.phases.timed("replay"):
        rulings = looked(asked, problem, by.solutions, run.rulings, seed, view.screen, stop, missed)
    unread = [SolutionRuling(each, "did not run", 0, 0, {}, (), why, exam=NOT_SAT) for each, why in view.unread.items()]
    rulings = tuple(scored(in_modes(each, *problem.modes)) for each in (*rulings, *unread))
    how = BY_REPLAY if run.guarantee else ""
    rulings = tuple(replace(each, headline=headline_of(each, how)) for each in rulings)
    worst = worst_of(each.verdict for each in rulings)
    ruling = Ruling(
        VERSION, worst, asked.against, run.said, "replay" if run.guarantee else "formula", run.guarantee, seed,
        run.cases, run.folder, run.probes, run.floors, run.largest, tuple(dict.fromkeys((*run.never, *problem.never))),
        (*run.unseen, *problem.remarks, *not_in_time(asked, missed)), rulings, *problem.modes,
        EXIT_OF[worst] if run.code is None else run.code, view.phases.seconds,
    )  # fmt: skip
    text = "\n\n".join([*run.told, wrapped_text(summary(ruling, run.seconds, verbose=view.verbose), view.width)])
    return Judged(ruling, text)


def looked(
    asked: Asked, problem: Statement, solutions: Solutions, found: Mapping[str, SolutionRuling], seed: int,
    screen: Console, stop: Interruption, missed: list[str],
) -> tuple[SolutionRuling, ...]:  # fmt: skip
    """Return the rulings, with what replays add: at the shapes that come with the problem, in the module's other mode
    (training or evaluation), at full size, and with possible causes of a failure removed. Whatever time does not
    suffice for is appended to `missed`; once a stop is wanted, nothing more is begun."""
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
    """Return the ruling; if the task's shapes were made smaller, solutions wrong only at other shapes are undecided."""
    if not problem.changed or ruling.verdict != "wrong":
        return ruling
    return replace(ruling, verdict="undecided", reason=f"it fails, but at none of the task's shapes: {problem.changed}")


def read_statement(asked: Asked) -> tuple[Statement, Derived]:
    """Return the problem and its op. Among the forms of the problem, take the first with room to vary all dimensions,
    else the one with the least work. Raises UnreadStatementError if the problem must be judged by a replay."""
    if asked.own:
        raise UnreadStatementError("", own_statement(asked.against))
    refusal: TaskError | None = None
    best: tuple[int, Statement, Derived] | None = None
    for problem in statements_of(asked.against, asked.solutions):
        if problem.module is not None and problem.module.one_seed:  # weights that are no inputs are in no formula
            raise UnreadStatementError("it has more or larger tensors than a case", own_statement(asked.against))
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
            raise UnreadStatementError(f"{refusal}; with extents {problem.kept}, each case takes too long", problem)
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
