"""Solutions of one problem, judged together: they share its cases and the exact values."""

from __future__ import annotations

import math
import secrets
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console

from fuzz.base.exits import Exit
from fuzz.base.probe import GHOST, STREAM
from fuzz.findings.book import book_in
from fuzz.generate.dims import MOST_WORK, USUAL_WORK
from fuzz.laws.registry import declared as declared_laws
from fuzz.report.brief import Provenance
from fuzz.report.console import print_lines
from fuzz.report.outline import run_outline
from fuzz.report.totals import not_exercised
from fuzz.report.wrapping import wrapped_text
from fuzz.uses.check.far import wrong_far
from fuzz.uses.examples import DRAWN, beside, samples_of, seen_in
from fuzz.uses.judge.asked import Asked, Judged
from fuzz.uses.judge.floor import detection_floors, unvaried
from fuzz.uses.judge.full import at_full_size
from fuzz.uses.judge.numbers import LAST
from fuzz.uses.judge.own import in_other_mode, own_problem, own_shapes, with_mode, with_one_seed, with_own
from fuzz.uses.judge.prepared import prepared
from fuzz.uses.judge.problem import Problem, UnreadProblemError, problems_of
from fuzz.uses.judge.replaying import judged_by_replay
from fuzz.uses.judge.ruling import VERSION, Ruling, solution_ruling, worst_of
from fuzz.uses.judge.solution import solutions_of
from fuzz.uses.judge.source import ProblemError
from fuzz.uses.judge.summary import not_given, summary
from fuzz.uses.judge.written import derived
from fuzz.uses.measured import Measuring
from fuzz.uses.search.groups import search_ops
from fuzz.uses.search.stopping import Limits
from fuzz.uses.search.turn_runner import Terms
from fuzz.uses.session import Session
from oracles.op import Op
from oracles.reference.derive import FINITE, Derived
from oracles.reference.dims import parsed
from oracles.reference.reading import UnknownStepError

_VARIED = 4
"""Where all dimensions that are not fixed have so many elements, there is room for others."""
_AROUND_S = 10.0
"""The seconds for what changes about a failure that is not shrunk."""
_PROBED_ONE_IN = 4
"""Cases of which one is called again by a probe: there are five of them, and few cases."""


def judged(asked: Asked, screen: Console, width: int, *, verbose: bool) -> Judged:
    """Judge the solutions, and tell it in lines of so many columns. Raises ProblemError where the problem or a solution
    cannot be read."""
    if asked.own:
        return judged_by_replay(asked, own_problem(asked.against), "", screen, width)
    try:
        problem, found = read_problem(asked)
    except UnreadProblemError as error:
        return judged_by_replay(asked, error.problem, str(error), screen, width)
    solutions = solutions_of(asked.solutions, problem, asked.against)
    with screen.status("trying what is taken ..."):
        ready = prepared(asked, problem, found, solutions)
    found, folder, kernels, targets = ready.found, ready.folder, ready.kernels, ready.targets
    print_lines(screen, [*filter(None, (found.said, found.left_out, problem.kept))])
    # Not before: no solution can know it.
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    here = {target.name.place for target in targets if target.unavailable() is None}
    laws = tuple(law for law in declared_laws(kernels) if law != STREAM or "cuda" in here)
    book, limits = book_in(folder / "findings", seed), Limits(None, asked.cases)
    session = Session(
        targets, book, Terms(kernels, laws, twin_one_in=_PROBED_ONE_IN), seed, limits, case_limit=asked.case_limit,
        screen=screen,
    )  # fmt: skip
    origin = Provenance(seed, _command(asked, seed), ("--pack", str(folder)), numbered=True)
    began = time.monotonic()
    with session:
        runner = session.runner(targets)
        measuring, floors = Measuring(session.pool, targets, seed), dict[str, float]()

        def meanwhile() -> None:
            measuring.measure()
            measuring.look_ahead(asked.cases)
            floors.update(detection_floors(found.op.name, seed, kernels, targets[0].contract))

        runner.begun = meanwhile
        with session.interruption:
            search_ops(runner, seed)
            if not session.tally.findings and not session.interruption.wanted:
                runner.replay([wrong_far(session.pool, targets, seed, session.tally)])
            session.draw_no_more()
            samples = () if problem.draw is None or session.interruption.wanted else samples_of(problem.draw)
            failed = {each.kernel for each in book.buckets.values()}
            beyond = beside(session.pool, targets, seed, seen_in(found, samples), DRAWN, failed)
            with session.err.status("looking at what was measured ..."):
                targets = session.targets = tuple(measuring.ended(session, book, asked.cases))
        elapsed = time.monotonic() - began
        for bucket in [each for each in book.buckets.values() if each.kernel in ready.untried]:
            del book.buckets[bucket.name]  # what it refuses is no bug of it
        if not session.interruption.terminated:
            # All of them are told at the end, which is near.
            seconds, shrinks = asked.explain_s or _AROUND_S, asked.explain_s is not None
            session.explain(seconds, None, shrinks=shrinks)
        undeclared = session.conclude(elapsed)
    interrupted = session.interruption.wanted
    outline = run_outline("judge", book, targets, session.tally, origin, interrupted=interrupted, usual=session.usual)
    session.tell_troubles()
    own = {} if interrupted else own_shapes(asked, problem, solutions, seed, screen)
    other = {} if interrupted else in_other_mode(asked, problem, solutions, seed, screen)
    by_id = {target.id: target for target in targets}
    rulings = tuple(
        with_own(
            solution_ruling(
                words, kernel, by_id, session.tally, book, measuring, ready.accepting,
                untried=ready.untried.get(kernel, ""), refuses=ready.refuses.get(kernel, ""), interrupted=interrupted,
                beyond=beyond.get(kernel),
            ),
            own.get(kernel),
        )
        for kernel, (words, _) in solutions.items()
    )  # fmt: skip
    rulings = rulings if interrupted else at_full_size(asked, problem, solutions, rulings, seed)
    rulings = tuple(with_mode(each, problem, other.get(name)) for name, each in zip(solutions, rulings, strict=True))
    rulings = rulings if interrupted else with_one_seed(asked, problem, solutions, rulings, seed, screen)
    probes = {law: session.tally.laws[law] for law in laws if law != GHOST}
    never = tuple(dict.fromkeys((*outline.outcome.never, *problem.never)))
    ruling = Ruling(
        VERSION, worst_of(each.verdict for each in rulings),
        asked.against, found.said, "formula", "", seed, session.tally.cases, str(folder),
        probes, floors, outline.outcome.largest, never,
        (*_unseen(not_exercised(undeclared), laws, unvaried(found.op.name, seed, kernels)),
         *not_given(session.tally, targets), *filter(None, [found.left_out]), *problem.remarks),
        rulings, *problem.modes,
    )  # fmt: skip
    lines = [failure.told(verbose=verbose, width=width) for failure in outline.failures]
    shaken = outline.outcome.code in (Exit.INTERNAL, Exit.INTERRUPTED)
    text = "\n\n".join([*lines, wrapped_text(summary(ruling, elapsed), width)])
    return Judged(ruling, text, outline.outcome.code if shaken else None)


def _unseen(undeclared: list[str], laws: tuple[str, ...], always: Mapping[str, int]) -> tuple[str, ...]:
    extents = ", ".join(f"any {dim} but {size}" for dim, size in always.items())
    few = [f"not exercised, as that many terms take too long: {extents}"] if extents else []
    probes = [] if STREAM in laws else [f"not exercised, as there is no GPU: the probe {STREAM}"]
    return (*undeclared, *few, *probes)


def read_problem(asked: Asked) -> tuple[Problem, Derived]:
    """Return the problem and its op: the first with room for all dimensions, or else that with most room."""
    refusal: ProblemError | None = None
    best: tuple[int, Problem, Derived] | None = None
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
        except ProblemError as error:
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
    """The most elements that an input has, of which each has errors of its own."""
    return max(math.prod(extents.get(dim, 1) for dim in each.axes) for each in op.inputs)


def _command(asked: Asked, seed: int) -> str:
    """The command line that judges the same, but for how long failures are explained."""
    values = None if asked.values == FINITE else asked.values
    options = [
        ("--against", asked.against), ("--shapes", asked.shapes), ("--values", values),
        *(("--target", each) for each in asked.targets), ("--seed", seed), ("--max-cases", asked.cases),
        ("--output", asked.output), ("--case-limit", asked.case_limit),
    ]  # fmt: skip
    words = [*asked.solutions, *(word for name, value in options if value is not None for word in (name, str(value)))]
    words += [*(["--any-values"] if asked.any_values else []), *([] if asked.untrusted else ["--trusted"])]
    return shlex.join(["kernelfuzz", "judge", *words])
