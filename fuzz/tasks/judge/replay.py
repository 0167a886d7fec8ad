"""Judging solutions by the reference itself, run in float64: what is drawn, where solutions run, and the rulings. And
the score of a solution, for those who train on it: 1 for a right one, and else half of what it passes of an exam. The
cases of the exam follow from the problem and the seed alone, so no solution has any influence on them."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console

from fuzz.campaign.corpus.folder import in_batches
from fuzz.campaign.search.examiner import Examiner
from fuzz.campaign.search.stopping import Interruption, SessionLimits
from fuzz.campaign.starting import select_targets, writable
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.probe import GHOST, STREAM
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.core.generate.observed import words_of
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import Entry, declared, with_twins
from fuzz.core.transport.python.halves import is_complex
from fuzz.findings.axes import told, values_of
from fuzz.findings.tally import Observer, TargetTally, never_decided
from fuzz.references.dims import shapes_text
from fuzz.references.examples import samples_of
from fuzz.references.parameters import titled
from fuzz.references.replay.cases import REPLAYED, Meant, ReplayCase, ReplayError, keeping, meant_of
from fuzz.references.replay.oracle import ABLE, NOTHING_PROMISED, Replay, Shapes, op_of
from fuzz.report import console
from fuzz.report.wrapping import wrapped_text
from fuzz.tasks.judge import ruling
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.bugs import failures_told, replay_bug
from fuzz.tasks.judge.ruling import Exam
from fuzz.tasks.judge.written import floats_of, probes_of, shown_line, write_solutions
from fuzz.tasks.readers.solution import ENTRY, Solutions, check_calls
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import Statement
from fuzz.tasks.replay import ReplayResults, run_replay
from fuzz.tasks.task import PROBED_ONE_IN
from oracles.dtypes import FORMATS
from oracles.op import Op
from oracles.ops import OPS

CASES = 64
"""The number of cases of an exam, without twins. Chosen: they have some 120 values of axes, and take about as long as a
third of a quick search."""
_NOWHERE = Path("exam.py")

AxisValue = tuple[str, str]
"""An axis, and a value that cases have on it."""


@dataclass
class ExamBoard(Observer):
    """What kernels pass of the cases that it is told of, as an observer of a session."""

    kernels: Mapping[str, str]
    """The kernel of each target, by the target's id."""
    cases: int = 0
    _passed: dict[str, dict[AxisValue, bool]] = field(default_factory=dict)

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """Note a case. A kernel passes it if at least one of its targets ran, and no target did anything but pass."""
        self.cases += 1
        values = _values(case) if self.kernels else []
        for kernel in dict.fromkeys(self.kernels.values()):
            own = [each.verdict is Verdict.PASS for each in judgements if self.kernels.get(each.target) == kernel]
            passes, known = bool(own) and all(own), self._passed.setdefault(kernel, {})
            known.update({each: known.get(each, True) and passes for each in values})

    def exam(self, kernel: str, lost: Sequence[AxisValue] | None = None) -> Exam:
        """Return what a kernel passes. If it refuses some inputs, the values that are `lost` thereby count as failing;
        None if it refuses none."""
        passed = {**self._passed.get(kernel, {}), **dict.fromkeys(lost or (), False)}
        axes = told([{axis: {value: 1}} for (axis, value), passes in passed.items() if not passes])
        failed = {axis: tuple(values) for axis, values in axes.items() if values}
        return Exam(self.cases, lost is not None, len(passed), failed)


def drawn(kernel: Kernel, seed: int, count: int, laws: Sequence[str] = ()) -> list[list[Entry]]:
    """Return the first cases that are drawn for a kernel's op and capabilities, each with its twin if it has one. The
    kernel's source has no say."""
    assert isinstance(kernel, PythonKernel)
    plain = replace(kernel, source=_NOWHERE, framework="numpy", configs=(), devices=())  # its numbers steer no draw
    probes = [law for law in laws if law != GHOST]  # which every solution passes
    made = (each.case for some in batches(Search(kernel.op, seed, [plain])) for each in some)
    return [with_twins([case], probes, PROBED_ONE_IN) for case in islice(made, count)]


def sat(pool: Pool, targets: Sequence[Target], groups: Sequence[list[Entry]], wanted: Callable[[], bool]) -> ExamBoard:
    """Return what these targets pass of an exam; once a stop is `wanted`, what is left counts as failed."""
    board = ExamBoard({each.id: each.kernel.name for each in targets})
    examiner = Examiner(pool, targets, decides=False)
    for batch in in_batches(groups):
        judgements: Sequence[Sequence[Judgement]] = [() for _ in batch]
        with suppress(UsageError):  # the only one can no longer be called as it is declared
            judgements = judgements if wanted() else examiner.examined([batch], examiner.submit(batch))[0].judgements
        for entry, each in zip(batch, judgements, strict=True):
            board.judged(entry.case, each)
    return board


def values_at_other_ranks(groups: Sequence[list[Entry]], rank: int) -> list[AxisValue]:
    """Return the values of axes in cases whose first input has another number of dimensions."""
    cases = (entry.case for group in groups for entry in group)
    others = (each for each in cases if len(next(iter(each.inputs.values())).layout.shape) != rank)
    return [value for case in others for value in _values(case)]


def _values(case: Case) -> list[AxisValue]:
    return [(axis, value) for axis, found in values_of(case).items() for value in found]


_UNEXERCISED = (
    "not exercised by a replay: strides, other ranks, the order of sums; failures are neither shrunk nor kept as cases"
)
_OTHERS = "not exercised, as only the shapes that come with the task were asked for: other shapes"
_UNPROBED = "not exercised, as a case takes long: other ways to make the same call"
_PROBED = 4
"""With fewer cases, none is called in other ways too: a call with other values takes another replay."""
_UNREAD = "not exercised, as the reference is neither read nor replayed there: other shapes"


@dataclass(frozen=True)
class PreparedReplay:
    """A replay that is ready to run: the inputs to draw for a problem, and the targets on which its solutions run."""

    asked: Asked
    meant: Meant
    op: Op
    solutions: Solutions
    folder: Path
    targets: Sequence[Target]
    changed: bool = False
    """Whether inputs that come with the task were made smaller, to save time."""

    def run(
        self, cases: int, seed: int, laws: Sequence[str], screen: Console, seconds: float = math.inf,
        stop: Interruption | None = None,
    ) -> tuple[Mapping[str, ruling.SolutionRuling], ReplayResults]:  # fmt: skip
        """Judge at most `cases` cases; return the ruling on each solution, by kernel, and the results. Begin no case
        after `seconds` of processor time, or once a stop is wanted. Raises TaskError if the reference cannot be
        replayed, and UsageError if the only solution cannot be called."""
        end, board = time.process_time() + seconds, ExamBoard({each.id: each.kernel.name for each in self.targets})
        with screen.status("replaying ..."):
            try:
                results = run_replay(
                    Replay(self.meant, self.op), self.targets, seed, SessionLimits(None, cases), self.folder, laws,
                    enough=lambda tally: time.process_time() >= end, case_limit=self.asked.case_limit, observer=board,
                    longest=SessionLimits(self.asked.max_time).longest_case, stop=stop, screen=console.silent(),
                    explain_s=self.asked.explain_s or 0.0,
                )  # fmt: skip
            except ReplayError as error:
                raise TaskError(f"{self.asked.against}: {error}") from error
        cut = stop is not None and stop.wanted
        return {
            name: self._ruling(name, results, ruling.NOT_SAT if cut else board.exam(name)) for name in self.solutions
        }, results

    def affordable(self, seed: int) -> int:
        """Return the number of cases that there is time for if a replay alone decides; at least one."""
        return min(self.asked.replays, int(self.asked.replay_s / self.measured(seed)[2]) or 1)

    def measured(self, seed: int) -> tuple[ReplayCase, Shapes, float]:
        """Return a case, its outputs (shape and dtype by name), and the seconds that a replay of the case takes."""
        case = next(self.meant.cases(seed))
        return case, self.meant.outputs(case), self.meant.ways.seconds(case.arrays)

    def _ruling(self, kernel: str, results: ReplayResults, exam: ruling.Exam) -> ruling.SolutionRuling:
        own, cases = ruling.of_kernel(results.tally, kernel), results.replay.cases
        lines = own.targets.values()
        said = ruling.worst_of(each for line in lines if (each := _said(line)) != "did not run")
        slow = {each.id: each.size_limit.beyond(self.op) for each in self.targets if each.size_limit is not None}
        not_given = [f"not given to {name}, which is slow: {larger}" for name, larger in slow.items()]
        reason = next((each.not_run_reason for each in lines if each.not_run_reason), "".join(not_given[:1]))
        if said == "undecided":
            undecided = max(each.gave_up for each in lines)
            never = dict.fromkeys(name for each in lines for name in never_decided(each.decided))
            reason = f"{undecided:,} of {counted(cases, 'case has', 'cases have')} no element that a replay decides"
            reason = f"no element of {' or '.join(never)} is decided by a replay" if never else reason
        found, (words, solution) = results.failures(kernel), self.solutions[kernel]
        failures = tuple(each.record for each in found)
        bugs = [
            replay_bug(
                kernel, each, results.tally.targets[each.target].findings, solution.files, place, self.asked.against
            )
            for place, each in enumerate(found)
        ]
        return ruling.SolutionRuling(
            words, said, own.judged - own.gave_up, own.findings,
            {} if self.meant.is_exact else ruling.largest_errors(own), failures,
            "" if said == "right" or failures else reason, axes=ruling.axes_of(own), exam=exam,
            first_failure=ruling.first_failure(own), bugs=tuple(bugs),
        )  # fmt: skip


@dataclass(frozen=True)
class ReplayJudge:
    """A reference that judges solutions itself: because of `why`, where that is not ''."""

    problem: Statement
    why: str
    prepared: PreparedReplay

    @property
    def solutions(self) -> Solutions:
        """The solutions, by their kernels."""
        return self.prepared.solutions

    @property
    def said(self) -> str:
        """The text about what is replayed, and why."""
        problem, meant = self.problem, self.prepared.meant
        title, sizes = titled(meant.asked.reference), meant.asked.fixed if problem.own else {}
        shapes = shapes_text({each: [sizes.get(dim, dim) for dim in some] for each, some in meant.asked.dims.items()})
        but = f", but for {problem.changed}" if problem.changed else ""
        how = ", ".join([
            *([f"at the shapes that come with it{but}"] if problem.own else []),
            *([f"as it cannot be read: {self.why.removeprefix(f'{title} cannot be read: ')}"] if self.why else []),
            *([f"kept as in {problem.source}: {words_of(meant.kept)}"] if meant.kept else []),
        ])  # fmt: skip
        return f"{title}: {shapes} -> {', '.join(each.name for each in self.prepared.op.outputs)}, replayed, {how}"

    @property
    def lines(self) -> Sequence[str]:
        """The lines about what is replayed, and what a replay does not see."""
        return self.said, self.prepared.meant.guarantee

    def run(self, seed: int, view: ruling.JudgeView, stop: Interruption) -> ruling.JudgeResults:
        """Judge cases, and return the results. Raises TaskError."""
        began, asked, own = time.monotonic(), self.prepared.asked, self.problem.own is not None
        all_of_them = asked.cases if self.prepared.meant.is_exact else asked.replays
        most = all_of_them if not (own and self.why) else stop.within(lambda: self.prepared.affordable(seed)) or 1
        laws = laws_of(self.prepared.targets) if most >= min(_PROBED, asked.replays) else ()
        spent = time.process_time()
        with view.phases.timed("replay"):
            rulings, results = self.prepared.run(most, seed, laws, view.screen, asked.replay_s, stop)
        seen, cases = results.replay, results.replay.cases
        missed = [f"more than {counted(cases, 'case')}"] if stop.is_over else []
        few = f"not exercised, as a case takes long: more than {counted(cases, 'case')}"
        others = (_UNREAD if self.why else _OTHERS) if own else ""
        unseen = (
            _UNEXERCISED, others, self.prepared.meant.asked.left_out, seen.came.never(REPLAYED),
            few if cases < asked.replays and not missed else "", "" if laws else _UNPROBED,
        )  # fmt: skip
        floors = {dtype: float(f"{np.median(each):.1e}") for dtype, each in sorted(seen.floors.items()) if each}
        probes = {law: results.tally.laws[law] for law in laws}
        told = [text for kernel, each in rulings.items() for text in failures_told(kernel, each.failures)]
        return ruling.JudgeResults(
            self.said, cases, str(self.prepared.folder), rulings, probes, floors,
            [*filter(None, unseen)], time.monotonic() - began, missed, self.prepared.meant.guarantee,
            told=[wrapped_text(each, view.width) for each in told], spent_s=time.process_time() - spent,
        )  # fmt: skip


def _said(line: TargetTally) -> ruling.Said:
    """Return the verdict on a target. Cases that no replay decides cause no doubt, unless they are the majority."""
    if line.findings or line.broken:
        return "wrong"
    if not line.judged:
        return "did not run"
    is_open = line.gave_up + line.not_run > line.judged - line.gave_up or bool(never_decided(line.decided))
    return "undecided" if is_open else "right"


def replay_of(asked: Asked, problem: Statement, solutions: Solutions) -> PreparedReplay:
    """Write the solutions, and return the replay, ready to run. Raises UnreadableError if no tensors are known."""
    stored = {each.spelling for each in FORMATS.values() if each.only_stores}
    for name, dtype in problem.dtypes.items():
        if dtype in stored and not problem.own:
            raise ReplayError(f"{name} is of {dtype}, which a replay does not draw")
        if is_complex(dtype):
            raise ReplayError(
                f"{name} is complex, and a replay takes real numbers alone; fuzz.check(..., oracle='replay') takes both"
            )
    meant = meant_of(
        problem.reference, problem.shapes, problem.numbers, problem.fixed, menus_of(problem, asked.values),
        floats_of(problem), problem.dtypes if problem.shapes else None, own=problem.own,
    )  # fmt: skip
    if samples := samples_of(problem.draw) if problem.draw and not (problem.own or asked.any_values) else ():
        meant = keeping(meant, samples, problem.fixed)
    op = op_of(meant, problem.name, secrets.randbelow(2**32))
    given = [each.name for each in op.inputs]
    check_calls(solutions, problem, given, [each.name for each in op.outputs])
    place = writable(asked.output) / problem.name
    own = {name: solution for name, (_, solution) in solutions.items()}
    write_solutions(place, problem, own, given, [each.name for each in op.outputs])
    targets = _targets(asked, problem, op, place, solutions)
    return PreparedReplay(asked, meant, op, solutions, place, targets, bool(problem.changed))


def menus_of(problem: Statement, values: str) -> Mapping[str, str] | str:
    """Return the values that tensors are drawn from. Variances that a norm keeps are positive: others give NaN."""
    own = problem.module.weights if problem.module is not None else {}
    variances = {name: "positive" for name, state in own.items() if state.endswith("running_var")}
    return {**dict.fromkeys(problem.shapes or (), values), **variances} if variances else values


def _targets(asked: Asked, problem: Statement, op: Op, folder: Path, solutions: Solutions) -> Sequence[Target]:
    laws = tuple(law for law in probes_of(problem) if law != GHOST)
    OPS[op.name] = op
    kernels = [
        PythonKernel(
            name, op.name, folder / name / each.file, each.framework, NOTHING_PROMISED, ABLE, entry=ENTRY,
            shown=shown_line(each), laws=laws, untrusted=asked.untrusted,
        )
        for name, (_, each) in solutions.items()
    ]  # fmt: skip
    return chosen(asked, kernels)


def chosen(asked: Asked, kernels: Sequence[Kernel]) -> tuple[Target, ...]:
    """Return the targets that are asked for, by default those on devices that are here, or all if none is."""
    targets = select_targets(kernels, patterns=asked.targets)
    return tuple(each for each in targets if asked.targets or each.unavailable() is None) or targets


def laws_of(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the laws that kernels of these targets declare and that can be tried on this machine."""
    here = {target.name.site for target in targets if target.unavailable() is None}
    return tuple(law for law in declared(each.kernel for each in targets) if law != STREAM or "cuda" in here)
