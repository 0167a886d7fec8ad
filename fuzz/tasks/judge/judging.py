"""Judging the solutions of one problem together, with the same cases and exact values. If no formula is read from the
reference, or at the shapes that come with it, a replay of the reference judges, which is weaker than a formula."""

from __future__ import annotations

import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from fuzz.campaign.search.deadline import LAST_S, Stopping
from fuzz.campaign.search.stopping import Interruption
from fuzz.core.generate.dims import MOST_WORK, USUAL_WORK
from fuzz.references.derive import Derived
from fuzz.references.dims import NotTakenError, UnreadableError, parsed
from fuzz.references.replay.cases import ReplayError
from fuzz.references.scope import UnknownStepError
from fuzz.report.console import print_lines
from fuzz.report.wrapping import wrapped_text
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.bugs import BY_REPLAY, headline_of, summary
from fuzz.tasks.judge.formula import FormulaJudge, formula_judge
from fuzz.tasks.judge.full import at_full_size
from fuzz.tasks.judge.own import in_other_mode, own_shapes, own_statement, with_causes, with_mode, with_own
from fuzz.tasks.judge.replay import ReplayJudge, replay_of
from fuzz.tasks.judge.ruling import (
    EXIT_OF,
    NOT_SAT,
    VERSION,
    Judged,
    JudgeResults,
    JudgeView,
    OwnShapes,
    Ruling,
    SolutionRuling,
    in_modes,
    in_time,
    not_in_time,
    scored,
    worst_of,
)
from fuzz.tasks.judge.written import derived
from fuzz.tasks.readers.formats import names_read, statements_of
from fuzz.tasks.readers.kernelbench import LAST
from fuzz.tasks.readers.solution import Solutions, solutions_of
from fuzz.tasks.readers.source import TaskError, UnreadSolutionsError, files_in
from fuzz.tasks.readers.statement import Statement, UnreadStatementError
from oracles.op import Op

_T = TypeVar("_T")
_READING, _OWN, _SEARCHING = 1 / 3, 2 / 3, 3 / 4
"""With a limit of time, the largest shares of the time left: for reading the reference, then for the task's own shapes,
then for the other cases. The rest is for what comes after them."""
_BY_FORMULA = "what a formula sees and a replay does not"
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
        with stop.sooner(_READING):
            seconds, by = stop.left, stop.within(begun, 0.0)
        if by is not None:
            return _ruled(asked, by, view, stop)
    except UnreadStatementError as error:
        return _judged_by_replay(asked, error.statement, str(error), view, stop)
    late = f"that takes longer than {seconds:.0f} s of --max-time {asked.max_time or 0.0:g}s"
    problem = stop.within(lambda: _unread(asked), 0.0)
    if problem is None:
        return _late(asked, view)
    return _judged_by_replay(asked, problem, late, view, stop, missed=(_BY_FORMULA,))


def _late(asked: Asked, view: JudgeView) -> Judged:
    """Return the ruling for a time limit that ended before the solutions were judged, those that cannot be read too."""
    return unjudged(replace(asked, solutions=(*asked.solutions, *view.unread)), view.width)


def _unread(asked: Asked) -> Statement:
    """Return the problem for a replay if there is no time to read its formula: of several forms of data the first whose
    dimensions the reference takes one by one with other extents."""
    problem = next(_statements(asked))
    if problem.data is not None:
        problem = next((each for each in _statements(asked) if _is_varied(each)), problem)
    return own_statement(asked.against) if problem.module is not None and problem.module.one_seed else problem


def _judged_by_replay(
    asked: Asked, problem: Statement, why: str, view: JudgeView, stop: Interruption, missed: Sequence[str] = ()
) -> Judged:  # fmt: skip
    """Judge the solutions of a problem by a replay, because its reference cannot be read (`why`) or only its own inputs
    were asked for. `missed` is what there was no time for. If the reference takes no inputs but its own, judge by
    these. Raises TaskError."""
    solutions = solutions_of(asked.solutions, problem, asked.against)
    try:
        replay = stop.within(lambda: replay_of(asked, problem, solutions), 0.0)
        if replay is None:
            return _late(asked, view)
        return _ruled(asked, ReplayJudge(problem, why, replay), view, stop, missed)
    except UnreadSolutionsError:
        raise
    except (ReplayError, TaskError, UnreadableError) as error:
        is_ours = isinstance(error, TaskError)
        refusal = str(error) if is_ours else f"{asked.against}: {error}" if isinstance(error, ReplayError) else why
        if problem.module is None or problem.own is not None:
            raise TaskError(refusal or str(error)) from error
        try:
            own = own_statement(asked.against, seconds=stop.left)
        except TaskError as worse:
            raise TaskError(f"{refusal}; at the shapes that come with it: {worse}") from error
    return _judged_by_replay(asked, own, why, view, stop, missed)


def _ruled(
    asked: Asked, by: FormulaJudge | ReplayJudge, view: JudgeView, stop: Interruption, late: Sequence[str] = ()
) -> Judged:  # fmt: skip
    """Return the ruling of a judge, completed by what replays found. The task's own shapes come first, as they alone
    make a verdict if there is little time. For what is `late` there was no time before. Raises TaskError."""
    print_lines(view.screen, by.lines)
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed  # only now: no solution can know it
    problem, own, missed = by.problem, dict[str, OwnShapes](), [*late]
    if problem.module is not None and problem.own is None:
        with stop.sooner(_OWN), view.phases.timed("replay"):
            found = stop.within(lambda: own_shapes(asked, problem, by.solutions, seed, view.screen, stop=stop)) or {}
            cut = stop.is_over and not any(each.judged for each in found.values())
        own.update({} if cut else found)
        missed += ["the task's own shapes"] if cut else []
    with stop.sooner(_SEARCHING if own or problem.changed else 1.0):
        run = by.run(seed, view, stop)
    missed += run.missed
    with view.phases.timed("replay"):
        rulings = looked(asked, problem, by.solutions, run, own, seed, view.screen, stop, missed)
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
    asked: Asked, problem: Statement, solutions: Solutions, run: JudgeResults, own: Mapping[str, OwnShapes], seed: int,
    screen: Console, stop: Interruption, missed: list[str],
) -> tuple[SolutionRuling, ...]:  # fmt: skip
    """Return the rulings, with what replays add: at the shapes that come with the problem (`own`), in the module's
    other mode (training or evaluation), at full size, and with possible causes of a failure removed. Whatever time does
    not suffice for is appended to `missed`; once a stop is wanted, nothing more is begun."""
    rulings = tuple(
        with_own(each, own.get(kernel), counts=kernel not in run.untried) for kernel, each in run.rulings.items()
    )
    rulings = tuple(unless_changed(each, problem) for each in rulings) if asked.own else rulings
    enough = run.is_enough(asked, own=problem.own is not None)
    if stop.wanted and not stop.is_over:
        return in_time(asked, rulings, missed, enough=enough)

    def told(what: str, work: Callable[[], _T], there: object) -> _T | None:
        made = stop.within(work)
        if made is None and there:
            missed.append(what)
        return made

    other = told(
        "the other mode", lambda: in_other_mode(asked, problem, solutions, seed, screen), problem.in_other_mode
    )
    whole = told(
        "the task's full size", lambda: at_full_size(asked, problem, solutions, rulings, seed), problem.changed
    )
    rulings, other = whole or rulings, other or {}
    rulings = tuple(
        with_mode(each, problem, other.get(kernel)) for kernel, each in zip(run.rulings, rulings, strict=True)
    )
    caused = stop.within(lambda: with_causes(asked, problem, solutions, rulings, seed, screen))
    return in_time(asked, caused or rulings, missed, enough=enough)


def unless_changed(ruling: SolutionRuling, problem: Statement) -> SolutionRuling:
    """Return the ruling; if the task's shapes were made smaller, solutions wrong only at other shapes are undecided."""
    if not problem.changed or ruling.verdict != "wrong":
        return ruling
    return replace(ruling, verdict="undecided", reason=f"it fails, but at none of the task's shapes: {problem.changed}")


def _is_varied(problem: Statement) -> bool:
    own = {**problem.fixed, **problem.examples[0]}
    return all(problem.takes({**own, dim: size + 1}) for dim, size in problem.examples[0].items())


def read_statement(asked: Asked) -> tuple[Statement, Derived]:
    """Return the problem and its op. Among the forms of the problem, take the first with room to vary all dimensions,
    else the one with the least work. Raises UnreadStatementError if the problem must be judged by a replay."""
    if asked.own:
        raise UnreadStatementError("", own_statement(asked.against))
    refusal: TaskError | None = None
    best: tuple[int, Statement, Derived] | None = None
    for problem in _statements(asked):
        if problem.module is not None and problem.module.one_seed:  # weights that are no inputs are in no formula
            raise UnreadStatementError("it has more or larger tensors than a case", own_statement(asked.against))
        if best is not None and problem.tier == LAST:
            break  # which extents a module refuses need not be known
        if best is not None and problem.tier == best[1].tier:
            continue
        if (elements := problem.least_elements) > MOST_WORK:
            raise UnreadStatementError(f"each case takes too long: it has a tensor of {elements:,} elements", problem)
        try:
            found = derived(problem, asked.values, any_values=asked.any_values)
        except TaskError as error:
            # Of several forms of data, one whose extents are taken is replayed.
            if refusal is None or (problem.data and isinstance(refusal.__cause__, NotTakenError)):
                refusal = error
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


def _statements(asked: Asked) -> Iterator[Statement]:
    """Yield the forms of the problem, with the shapes that were asked for."""
    dims, numbers = ({}, {}) if asked.shapes is None else parsed(asked.shapes, twice=True)
    shapes = {name: " ".join(words) for name, words in dims.items()}
    for problem in statements_of(asked.against, asked.solutions):
        own = problem.numbers if asked.shapes is None else numbers
        yield replace(problem, shapes=shapes or problem.shapes, numbers=own)


def _elements(op: Op, extents: Mapping[str, int]) -> int:
    """Return the most elements that an input has; the judge bounds the error of each element."""
    return max(math.prod(extents.get(dim, 1) for dim in each.axes) for each in op.inputs)


_Stamp = tuple[int, int]


class Readings:
    """The results of reading references, or the errors, which are valid as long as the files are unchanged."""

    def __init__(self) -> None:
        self._known = dict[object, tuple[Statement, Derived] | TaskError]()
        self._stamps: Mapping[Path, _Stamp] = {}
        self._threads = 0

    def know(self, asked: Asked) -> None:
        """Read the problem, unless it is known. If a file of an earlier problem has changed, end the process, since
        Python would keep what it has imported."""
        if any(_stamp(path) != stamp for path, stamp in self._stamps.items()):
            os._exit(0)
        if (key := _key(asked)) in self._known:
            return
        import torch

        # A forked process lacks this process's threads, and OpenMP would wait for them.
        self._threads = self._threads or torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            self._known[key] = read_statement(asked)
        except TaskError as error:
            self._known[key] = error
        except Exception:  # a forked process reads the problem again and reports the error
            return
        self._stamps = {path: _stamp(path) for path in _files(asked.against)}

    def begin(self) -> None:
        """Set the number of threads back to what it was, in a process that was forked."""
        import torch

        torch.set_num_threads(self._threads or torch.get_num_threads())

    def read(self, asked: Asked) -> tuple[Statement, Derived]:
        """Return or raise what `read_statement` does for this request."""
        known = self._known.get(_key(asked))
        if isinstance(known, TaskError):
            raise known
        return read_statement(asked) if known is None else known


def _key(asked: Asked) -> object:
    names = frozenset[str]()
    with suppress(TaskError):  # a solution cannot be read, which is reported when it is judged
        names = names_read(asked.against, asked.solutions)
    return asked.against, asked.shapes, asked.values, asked.own, asked.any_values, names


def _files(against: str) -> Iterator[Path]:
    """Yield the files that a reference was read from: its own, its task's, and imported modules in its folder."""
    path = Path(against.partition(":")[0]).resolve()
    folder = path if path.is_dir() else path.parent
    yield path
    if path.is_dir() or path.suffix in (".yml", ".yaml"):
        yield from (each for each in folder.iterdir() if each.is_file())
    for module in [*sys.modules.values()]:
        if (file := getattr(module, "__file__", None)) and Path(file).is_relative_to(folder):
            yield Path(file)


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:  # the file is gone
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
