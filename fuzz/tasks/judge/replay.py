"""A problem that the reference itself judges, replayed in float64: what is drawn, where solutions run, and what is said
of each."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from rich.console import Console

from fuzz.campaign.search.runner import MOST_HANGS
from fuzz.campaign.search.stopping import Interruption, RunLimits
from fuzz.campaign.starting import select_targets, writable
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.probe import GHOST, STREAM
from fuzz.core.base.text import counted
from fuzz.core.execute.pool import WorkerPool
from fuzz.findings.tally import TargetTally, never_decided
from fuzz.references.examples import samples_of, structure_of
from fuzz.references.replay.cases import DTYPES, Meant, ReplayError, meant_of
from fuzz.references.replay.oracle import SPARE, op_of
from fuzz.references.replay.run import Run
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.ruling import Said, SolutionRuling, worst_of
from fuzz.tasks.judge.written import floats_of, probes_of, shown_line, write_solutions
from fuzz.tasks.readers.problem import Statement
from fuzz.tasks.readers.solution import ENTRY, Solutions
from fuzz.tasks.readers.source import TaskError
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS

_BATCH = 8
_ABLE = Capabilities(dtypes=DTYPES)
_NOTHING_PROMISED = Contract(platform="none")
"""It is not judged by a formula, to which a contract could apply."""


@dataclass(frozen=True)
class ReplayPlan:
    """What is drawn for a problem, and what its solutions run as."""

    asked: Asked
    meant: Meant
    op: Op
    solutions: Solutions
    folder: Path
    targets: Sequence[Target]

    def run(
        self, cases: int, seed: int, laws: Sequence[str], screen: Console, seconds: float = math.inf,
        stop: Interruption | None = None,
    ) -> Run:  # fmt: skip
        """Judge at most `cases` cases, and begin none after `seconds` of processor time, nor once a stop is wanted.
        Raises ProblemError if the reference accepts no case."""
        stop = stop or Interruption()
        run = Run(self.meant, self.op, self.targets, tuple(laws), seed)
        longest = RunLimits(self.asked.max_time).longest_case
        workers = WorkerPool(self.targets, limit=self.asked.case_limit, longest=longest, most_hangs=MOST_HANGS)
        with workers as pool, screen.status("replaying ...") as shown:
            for name, status in pool.statuses.items():
                if isinstance(status, NotRun):
                    run.lines[name].not_run_reason, run.lines[name].broken = status.reason, status.broken
            drawn, end = islice(self.meant.cases(seed), cases), time.process_time() + seconds
            try:
                while not stop.wanted and time.process_time() < end and (some := [*islice(drawn, _BATCH)]):
                    stop.within(partial(run.batch, pool, some))
                    shown.update(f"replaying: {run.cases} of {counted(cases, 'case')} ...")
            except ReplayError as error:
                raise TaskError(f"{self.asked.against}: {error}") from error
        return run

    @property
    def laws(self) -> Sequence[str]:
        """The other ways to call that there are here."""
        here = {target.name.place for target in self.targets if target.unavailable() is None}
        return [law for law in self.targets[0].kernel.laws if law != STREAM or "cuda" in here]

    def rulings(self, run: Run) -> Mapping[str, SolutionRuling]:
        """Return what is said of each solution, by its kernel."""
        return {name: self._ruling(name, run) for name in self.solutions}

    def _ruling(self, kernel: str, run: Run) -> SolutionRuling:
        lines = [line for line in run.lines.values() if line.kernel == kernel]
        said = worst_of(each for line in lines if (each := _said(line)) != "did not run")
        largest = dict[str, float]()
        for dtype, worst in (each for line in lines for each in line.worst.items()):
            largest[dtype] = max(worst.ratio, largest.get(dtype, 0.0))
        slow = {each.id: each.size_limit.beyond(run.op) for each in self.targets if each.size_limit is not None}
        not_given = [f"not given to {name}, which is slow: {larger}" for name, larger in slow.items()]
        reason = next((each.not_run_reason for each in lines if each.not_run_reason), "".join(not_given[:1]))
        if said == "undecided":
            undecided = max(each.gave_up for each in lines)
            never = dict.fromkeys(name for each in lines for name in never_decided(each.decided))
            reason = f"{undecided:,} of {counted(run.cases, 'case has', 'cases have')} no element that a replay decides"
            reason = f"no element of {' or '.join(never)} is decided by a replay" if never else reason
        failures = tuple(run.smallest[each.target].record for each in lines if each.target in run.smallest)
        return SolutionRuling(
            self.solutions[kernel][0], said, sum(each.judged - each.gave_up for each in lines),
            sum(each.findings for each in lines), largest, failures, "" if said == "right" or failures else reason,
        )  # fmt: skip


def _said(line: TargetTally) -> Said:
    """Return the verdict on a target. Some cases that no replay decides are no reason for doubt, unless most are."""
    if line.findings or line.broken:
        return "wrong"
    if not line.judged:
        return "did not run"
    is_open = line.gave_up + line.not_run > line.judged - line.gave_up or bool(never_decided(line.decided))
    return "undecided" if is_open else "right"


def replay_of(asked: Asked, problem: Statement, solutions: Solutions) -> ReplayPlan:
    """Return what is drawn and run, and write the solutions. Raises UnreadableError where not even the tensors of the
    reference are known."""
    floats = [each for each in floats_of(problem) if each in DTYPES]
    dtypes = problem.dtypes if problem.shapes else None
    meant = meant_of(
        problem.reference, problem.shapes, problem.numbers, problem.fixed, menus_of(problem, asked.values), floats,
        dtypes, own=problem.own,
    )  # fmt: skip
    if samples := samples_of(problem.draw) if problem.draw and not (problem.own or asked.any_values) else ():
        dims = meant.asked.dims
        kept, square = structure_of({name: name for name in dims}, dims, samples, problem.fixed)
        meant = replace(meant, kept=kept, square=square)
    first = next(meant.cases(secrets.randbelow(2**32)))
    op = op_of(meant, meant.outputs(first), f"replayed_{problem.name}"[:31])
    if op.main == SPARE:
        raise ReplayError(f"{op.name}: it takes no tensor of floats that has dimensions")
    place = writable(asked.output) / problem.name
    own = {name: solution for name, (_, solution) in solutions.items()}
    write_solutions(place, problem, own, [*meant.asked.dims], [each.name for each in op.outputs])
    return ReplayPlan(asked, meant, op, solutions, place, _targets(asked, problem, op, place, solutions))


def menus_of(problem: Statement, values: str) -> Mapping[str, str] | str:
    """Return what tensors are drawn from: variances that a norm keeps are positive, as it makes NaN of others."""
    own = problem.module.weights if problem.module is not None else {}
    variances = {name: "positive" for name, state in own.items() if state.endswith("running_var")}
    return {**dict.fromkeys(problem.shapes or (), values), **variances} if variances else values


def _targets(asked: Asked, problem: Statement, op: Op, folder: Path, solutions: Solutions) -> Sequence[Target]:
    OPS.pop(op.name, None)  # of an earlier judgement: kernels are declared while nobody knows it, as it has no formula
    laws = tuple(law for law in probes_of(problem) if law != GHOST)
    kernels = [
        PythonKernel(
            name, op.name, folder / name / each.file, each.framework, _NOTHING_PROMISED, _ABLE, entry=ENTRY,
            shown=shown_line(each), laws=laws, untrusted=asked.untrusted,
        )
        for name, (_, each) in solutions.items()
    ]  # fmt: skip
    OPS[op.name] = op
    targets = select_targets(kernels, patterns=asked.targets)
    return tuple(each for each in targets if asked.targets or each.unavailable() is None) or targets
