"""A problem that the reference itself judges, replayed in float64: what is drawn, where solutions run, and what is said
of each."""

from __future__ import annotations

import math
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from fuzz.campaign.search.runner import MOST_HANGS
from fuzz.campaign.starting import select_targets, writable
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.probe import GHOST, STREAM
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.findings.tally import never_decided
from fuzz.references.examples import samples_of, structure_of
from fuzz.tasks.check.replay_cases import DTYPES, Comparison, Meant, ReplayCase, meant_of
from fuzz.tasks.check.results import CheckError
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.nameless import op_of
from fuzz.tasks.judge.problem import Problem
from fuzz.tasks.judge.replay_run import Line, Run
from fuzz.tasks.judge.ruling import SolutionRuling, worst_of
from fuzz.tasks.judge.solution import ENTRY, Solutions
from fuzz.tasks.judge.source import ProblemError
from fuzz.tasks.judge.written import floats_of, probes_of, shown_line, write_solutions
from oracles.op import Op
from oracles.ops import OPS

_BATCH = 8
_ABLE = Capabilities(dtypes=DTYPES)


@dataclass(frozen=True)
class Replay:
    """What is drawn for a problem, and what its solutions run as."""

    asked: Asked
    meant: Meant
    op: Op
    solutions: Solutions
    folder: Path
    targets: Sequence[Target]

    def run(
        self, cases: int, seed: int, laws: Sequence[str], screen: Console, seconds: float = math.inf
    ) -> Run:  # fmt: skip
        """Run so many cases, and begin no more after so many seconds of a processor. Raises ProblemError where the
        reference takes none."""
        lines, probes = {each.id: Line() for each in self.targets}, dict.fromkeys(laws, 0)
        run = Run(self.meant, self.op, self.targets, tuple(laws), seed, lines, probes)
        workers = WorkerPool(self.targets, limit=self.asked.case_limit, most_hangs=MOST_HANGS)
        with workers as pool, screen.status("replaying ..."):
            for name, status in pool.statuses.items():
                if isinstance(status, NotRun):
                    run.lines[name].reason, run.lines[name].broken = status.reason, bool(status.broken)
            drawn, end = islice(self.meant.cases(seed), cases), time.process_time() + seconds
            try:
                while time.process_time() < end and (some := [*islice(drawn, _BATCH)]):
                    run.batch(pool, some)
            except CheckError as error:
                raise ProblemError(f"{self.asked.against}: {error}") from error
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
        lines = [run.lines[each.id] for each in self.targets if each.kernel.name == kernel]
        said = worst_of(each.said() for each in lines if each.said() != "did not run")
        largest = defaultdict[str, float](float)
        for line in lines:
            for dtype, ratio in line.largest.items():
                largest[dtype] = max(ratio, largest[dtype])
        slow = {each.id: each.size_limit.beyond(run.op) for each in self.targets if each.size_limit is not None}
        not_given = [f"not given to {name}, which is slow: {larger}" for name, larger in slow.items()]
        reason = next((each.reason for each in lines if each.reason), "".join(not_given[:1]))
        if said == "undecided":
            undecided = max(each.undecided for each in lines)
            never = dict.fromkeys(name for each in lines for name in never_decided(each.decided))
            reason = f"{undecided} of {run.cases} cases have no element that a replay decides"
            reason = f"no element of {' or '.join(never)} is decided by a replay" if never else reason
        failures = tuple(_failure(*line.worst) for line in lines if line.worst is not None)
        return SolutionRuling(
            self.solutions[kernel][0], said, sum(each.judged for each in lines), sum(each.failing for each in lines),
            dict(largest), failures, "" if said == "right" or failures else reason,
        )  # fmt: skip


def replay_of(asked: Asked, problem: Problem, solutions: Solutions) -> Replay:
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
    place = writable(asked.output) / problem.name
    own = {name: solution for name, (_, solution) in solutions.items()}
    write_solutions(place, problem, own, [*meant.asked.dims], [each.name for each in op.outputs])
    return Replay(asked, meant, op, solutions, place, _targets(asked, problem, op, place, solutions))


def menus_of(problem: Problem, values: str) -> Mapping[str, str] | str:
    """Return what tensors are drawn from: variances that a norm keeps are positive, as it makes NaN of others."""
    own = problem.module.weights if problem.module is not None else {}
    variances = {name: "positive" for name, state in own.items() if state.endswith("running_var")}
    return {**dict.fromkeys(problem.shapes or (), values), **variances} if variances else values


def _targets(asked: Asked, problem: Problem, op: Op, folder: Path, solutions: Solutions) -> Sequence[Target]:
    OPS.pop(op.name, None)  # of an earlier judgement: kernels are declared while nobody knows it, as it has no formula
    laws = tuple(law for law in probes_of(problem) if law != GHOST)
    kernels = [
        PythonKernel(
            name, op.name, folder / name / each.file, each.framework, capabilities=_ABLE, entry=ENTRY,
            shown=shown_line(each), laws=laws, untrusted=asked.untrusted,
        )
        for name, (_, each) in solutions.items()
    ]  # fmt: skip
    OPS[op.name] = op
    targets = select_targets(kernels, patterns=asked.targets)
    return tuple(each for each in targets if asked.targets or each.unavailable() is None) or targets


def _failure(case: ReplayCase, verdict: Verdict, words: str, found: Comparison) -> dict[str, Any]:
    place, got, expected, allowed = found.place or ("", "", "", "")
    return {
        "verdict": verdict.name, "said": words, "case": case.text,
        "shapes": {name: list(each.shape) for name, each in case.arrays.items()}, "recipes": dict(case.recipes),
        "dtype": case.dtype, "place": place, "got": got, "expected": expected, "allowed": allowed,
    }  # fmt: skip
