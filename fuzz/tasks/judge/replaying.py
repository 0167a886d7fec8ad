"""Solutions judged by the reference itself, replayed in float64: where no formula is read from it, or at the shapes
that come with it. A weaker judge."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
from rich.console import Console

from fuzz.campaign.search.stopping import Interruption
from fuzz.core.base.text import counted
from fuzz.core.generate.observed import words_of
from fuzz.references.dims import UnreadableError, shapes_text
from fuzz.references.examples import DRAWN
from fuzz.references.parameters import titled
from fuzz.references.replay.cases import DTYPES, WEAKER, ReplayError
from fuzz.report.console import print_lines
from fuzz.report.wrapping import wrapped_text
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.full import at_full_size
from fuzz.tasks.judge.own import affordable, in_other_mode, own_problem, own_shapes, with_causes, with_mode, with_own
from fuzz.tasks.judge.replay import ReplayPlan, replay_of
from fuzz.tasks.judge.ruling import (
    VERSION,
    Judged,
    Ruling,
    SolutionRuling,
    failures_told,
    in_time,
    not_in_time,
    summary,
    worst_of,
)
from fuzz.tasks.readers.problem import Statement
from fuzz.tasks.readers.solution import Solutions, solutions_of
from fuzz.tasks.readers.source import TaskError

_T = TypeVar("_T")
_UNEXERCISED = (
    "not exercised by a replay: strides, other ranks, the order of sums; failures are not explained, nor kept as cases"
)
_OTHERS = "not exercised, as only the shapes that come with the task were asked for: other shapes"
_UNPROBED = "not exercised, as a case takes long: other ways to make the same call"
_PROBED = 4
"""With fewer cases none is called in other ways, each of which has other values, whose replay takes as long."""
_UNREAD = "not exercised, as the reference is neither read nor replayed there: other shapes"


def judged_by_replay(
    asked: Asked, problem: Statement, why: str, screen: Console, width: int, stop: Interruption
) -> Judged:  # fmt: skip
    """Judge solutions of a problem that is not read, because of `why`, or by its own inputs alone; where it takes no
    others than those, also by these. Raises ProblemError."""
    solutions = solutions_of(asked.solutions, problem, asked.against)
    try:
        replay = replay_of(asked, problem, solutions)
        seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed  # not before: no solution can know it
        return _judged(asked, problem, why, screen, width, replay, solutions, seed, stop)
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


def _judged(
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
    laws = replay.laws if cases >= min(_PROBED, asked.replays) else ()
    run = replay.run(cases, seed, laws, screen, asked.replay_s, stop)
    missed = [f"more than {counted(run.cases, 'case')}"] if stop.is_over else []
    few = (
        f"not exercised, as a case takes long: more than {counted(run.cases, 'case')}"
        if run.cases < asked.replays and not missed
        else ""
    )
    found = replay.rulings(run)
    rulings = looked(asked, problem, solutions, found, seed, screen, stop, missed)
    elapsed = time.monotonic() - began
    floors = {dtype: float(f"{np.median(each):.1e}") for dtype, each in sorted(run.floors.items()) if each}
    never = (
        (_UNREAD if why else _OTHERS) if problem.own else "",
        replay.meant.asked.left_out,
        run.came.never(DTYPES).text,
    )
    ruling = Ruling(
        VERSION, worst_of(each.verdict for each in rulings), asked.against, said, "replay", WEAKER, seed, run.cases,
        str(replay.folder), run.probes, floors, {}, problem.never,
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
    """Return rulings, by the kernels of solutions, with what replays say besides: at the shapes that come with the
    problem, as they are or smaller, in the other mode, and with what may be wrong of them undone. What there is no time
    for is `missed`, and nothing of it is begun once a stop is wanted."""
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
    rulings = tuple(_unless_changed(with_own(each, (own or {}).get(kernel)), problem) for kernel, each in found.items())
    whole = told(
        "the task's full size", lambda: at_full_size(asked, problem, solutions, rulings, seed), problem.changed
    )
    rulings, other = whole or rulings, other or {}
    rulings = tuple(with_mode(each, problem, other.get(kernel)) for kernel, each in zip(found, rulings, strict=True))
    caused = stop.within(lambda: with_causes(asked, problem, solutions, rulings, seed, screen))
    return in_time(asked, caused or rulings, missed)


def _unless_changed(ruling: SolutionRuling, problem: Statement) -> SolutionRuling:
    """Return a ruling of a solution that need only be right at a task's own shapes: at others it is never wrong."""
    if not problem.changed or ruling.verdict != "wrong":
        return ruling
    return replace(ruling, verdict="undecided", reason=f"it fails, but at none of the task's shapes: {problem.changed}")
