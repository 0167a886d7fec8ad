"""Solutions judged by the reference itself, replayed in float64: where no formula is read from it. A weaker judge."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from fuzz.adapters.python_kernel import PythonKernel
from fuzz.adapters.target import NotRun, Target
from fuzz.base.capability import Capabilities
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome
from fuzz.base.probe import GHOST, STREAM
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import Pool
from fuzz.judge.judge import Judge
from fuzz.judge.words import changes_text
from fuzz.laws.registry import Entry, with_twins
from fuzz.report.console import print_lines
from fuzz.report.wrapping import wrapped_text
from fuzz.triage.diagnosis import new_workers
from fuzz.uses.check.replay_cases import DTYPES, WEAKER, Comparison, Meant, ReplayCase, compared, meant_of, width_of
from fuzz.uses.check.results import CheckError
from fuzz.uses.judge.asked import Asked, Judged
from fuzz.uses.judge.nameless import arrays_of, case_of, op_of, returned
from fuzz.uses.judge.problem import Problem
from fuzz.uses.judge.ruling import VERSION, Ruling, Said, SolutionRuling, worst_of
from fuzz.uses.judge.solution import ENTRY, Solution, solutions_of
from fuzz.uses.judge.source import ProblemError
from fuzz.uses.judge.summary import summary
from fuzz.uses.judge.written import floats_of, probes_of, shown_line, write_solutions
from fuzz.uses.starting import select_targets, writable
from oracles.op import Op
from oracles.ops import OPS
from oracles.reference.dims import UnreadableError
from oracles.reference.replay import Replayed

_BATCH = 8
_PROBED_ONE_IN = 4
_UNEXERCISED = (
    "not exercised by a replay: strides, other ranks, the order of sums; failures are not explained, nor kept as cases"
)
Wanted = Sequence[Replayed] | None
_NOTHING = Comparison("")


@dataclass
class _Line:
    """What is known of a target."""

    judged: int = 0
    failing: int = 0
    undecided: int = 0
    largest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    worst: tuple[ReplayCase, Verdict, str, Comparison] | None = None
    """The smallest case that failed."""
    reason: str = ""
    broken: bool = False

    def failed(self, case: ReplayCase, verdict: Verdict, words: str, found: Comparison = _NOTHING) -> None:
        """Note a run that is wrong."""
        self.judged += 1
        self.failing += 1
        if self.worst is None or case.elements < self.worst[0].elements:
            self.worst = case, verdict, words, found

    def said(self) -> Said:
        """The verdict."""
        if self.failing or self.broken:
            return "wrong"
        if not (self.judged or self.undecided):
            return "did not run"
        return "undecided" if self.undecided > self.judged else "right"


@dataclass
class _Run:
    """Cases on their way, and what comes of them."""

    meant: Meant
    op: Op
    targets: Sequence[Target]
    laws: tuple[str, ...]
    seed: int
    lines: dict[str, _Line]
    probes: dict[str, int]
    floors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cases: int = 0

    def batch(self, pool: Pool, drawn: Sequence[ReplayCase]) -> None:
        """Run cases and their twins; the reference is replayed while workers are at them."""
        plain = dict[str, ReplayCase]()
        cases = list[Case]()
        for each in drawn:
            self.cases += 1
            cases.append(case_of(each, self.meant.outputs(each), self.op, self.seed, self.cases))
            plain[cases[-1].digest] = each
        entries = with_twins(cases, self.laws, _PROBED_ONE_IN)
        running = pool.submit([each.case for each in entries])
        replays: dict[str, Wanted] = {}
        for entry in entries:
            if (key := _inputs(entry.case)) not in replays:
                replays[key] = self.meant.replays(arrays_of(entry.case))
        usual: Mapping[str, Outcome] = {}
        of = drawn[0]
        for entry, outcomes in zip(entries, running.outcomes(), strict=True):
            of = plain.get(entry.case.digest, of)
            wanted = replays[_inputs(entry.case)]
            if entry.check is None:
                self._note_floor(of, wanted)
                usual = {name: one for name, one in outcomes.items() if self._judge(of, entry, wanted, one)}
                continue
            self.probes[entry.check.name] += 1
            for name, one in outcomes.items():
                if name in usual:
                    self._judge_twin(of, entry, wanted, one, usual[name])

    def _note_floor(self, of: ReplayCase, wanted: Wanted) -> None:
        for each in wanted or ():
            with np.errstate(all="ignore"):
                shares = width_of(each, of.dtype) / np.abs(each.value)
            self.floors[of.dtype] += shares[np.isfinite(shares)].tolist()

    def _judge(self, of: ReplayCase, entry: Entry, wanted: Wanted, outcome: Outcome) -> bool:
        """Judge a run. Return whether it is right."""
        line, (verdict, words, found) = self.lines[outcome.target], _found(entry.case, wanted, outcome, of.dtype)
        if verdict is Verdict.PASS:
            line.judged += 1
            line.largest[of.dtype] = max(line.largest[of.dtype], found.ratio)
        elif verdict is Verdict.ORACLE_GAVE_UP:
            line.undecided += 1
        elif verdict is Verdict.NOT_RUN:
            line.reason = line.reason or words
        else:
            line.failed(of, verdict, words, found)
        return verdict is Verdict.PASS

    def _judge_twin(self, of: ReplayCase, entry: Entry, wanted: Wanted, outcome: Outcome, usual: Outcome) -> None:
        """Judge a call in another way. What is wrong about other values says nothing of the way, unless it is the
        answer to the old ones."""
        assert entry.check is not None
        probe = entry.check.law.probe
        verdict, _, found = _found(entry.case, wanted, outcome, of.dtype)
        silent = (Verdict.PASS, Verdict.NOT_RUN, Verdict.TIMEOUT, Verdict.ORACLE_GAVE_UP)
        if verdict in silent or probe is None or (probe.wrong is None and outcome.outputs != usual.outputs):
            return
        said = (probe.wrong or probe.stale)(entry.case)
        self.lines[outcome.target].failed(of, Verdict.FAIL_LAW, f"breaks {entry.check.name}\n    {said}", found)


def judged_by_replay(asked: Asked, problem: Problem, why: str, screen: Console, width: int) -> Judged:
    """Judge solutions of a problem that is not read, because of `why`. Raises ProblemError."""
    floats = [each for each in floats_of(problem) if each in DTYPES]
    try:
        meant = meant_of(
            problem.reference, problem.shapes, problem.numbers, problem.fixed, asked.values, floats,
            problem.dtypes if problem.shapes else None,
        )  # fmt: skip
    except UnreadableError as error:
        raise ProblemError(why) from error
    seed = secrets.randbelow(2**32)
    first = next(meant.cases(seed))
    op = op_of(meant, meant.outputs(first), f"replayed_{problem.name}"[:31])
    solutions = solutions_of(asked.solutions, problem, asked.against)
    folder = writable(asked.output) / problem.name
    by_name = {name: solution for name, (_, solution) in solutions.items()}
    write_solutions(folder, problem, by_name, [*meant.asked.dims], [each.name for each in op.outputs])
    targets = _targets(asked, problem, op, folder, by_name)
    shapes = ", ".join(f"{name}[{', '.join(dims)}]" for name, dims in meant.asked.dims.items())
    reason = why.removeprefix(f"reference {meant.asked.name} cannot be read: ")
    returns = ", ".join(each.name for each in op.outputs)
    said = f"reference {meant.asked.name}: {shapes} -> {returns}, replayed, as it cannot be read: {reason}"
    print_lines(screen, [said, WEAKER])
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed  # not before: no solution can know it
    run, elapsed = _run(asked, meant, op, targets, seed, screen)
    rulings = tuple(_ruling(words, name, targets, run) for name, (words, _) in solutions.items())
    floors = {dtype: float(f"{np.median(each):.1e}") for dtype, each in sorted(run.floors.items()) if each}
    ruling = Ruling(
        VERSION, worst_of(each.verdict for each in rulings),
        asked.against, said, "replay", WEAKER, seed, run.cases, str(folder), run.probes,
        floors, (_UNEXERCISED, *filter(None, [meant.asked.left_out])), rulings,
    )  # fmt: skip
    told = [_told(each, name) for name, each in zip(solutions, rulings, strict=True) if each.failures]
    texts = (wrapped_text(each, width) for each in (*told, summary(ruling, elapsed)))
    return Judged(ruling, "\n\n".join(texts))


def _targets(
    asked: Asked, problem: Problem, op: Op, folder: Path, solutions: Mapping[str, Solution]
) -> Sequence[Target]:
    OPS.pop(op.name, None)  # of an earlier judgement: kernels are declared while nobody knows it, as it has no formula
    laws = tuple(law for law in probes_of(problem) if law != GHOST)
    kernels = [
        PythonKernel(
            name, op.name, folder / name / each.file, each.framework, capabilities=_ABLE, entry=ENTRY,
            shown=shown_line(problem, each), laws=laws, untrusted=asked.untrusted,
        )
        for name, each in solutions.items()
    ]  # fmt: skip
    OPS[op.name] = op
    targets = select_targets(kernels, patterns=asked.targets)
    return tuple(each for each in targets if asked.targets or each.unavailable() is None) or targets


_ABLE = Capabilities(dtypes=DTYPES)


def _run(
    asked: Asked, meant: Meant, op: Op, targets: Sequence[Target], seed: int, screen: Console
) -> tuple[_Run, float]:
    here = {target.name.place for target in targets if target.unavailable() is None}
    laws = tuple(law for law in targets[0].kernel.laws if law != STREAM or "cuda" in here)
    run = _Run(
        meant, op, targets, laws, seed, {each.id: _Line() for each in targets}, dict.fromkeys(laws, 0)
    )  # fmt: skip
    began = time.monotonic()
    with new_workers(targets, asked.case_limit) as pool, screen.status("replaying ..."):
        for name, status in pool.statuses.items():
            if isinstance(status, NotRun):
                run.lines[name].reason, run.lines[name].broken = status.reason, bool(status.broken)
        cases = islice(meant.cases(seed), asked.replays)
        try:
            while some := [*islice(cases, _BATCH)]:
                run.batch(pool, some)
        except CheckError as error:
            raise ProblemError(f"{asked.against}: {error}") from error
    return run, time.monotonic() - began


def _found(case: Case, wanted: Wanted, outcome: Outcome, dtype: str) -> tuple[Verdict, str, Comparison]:
    """Return the verdict on a run, in words, and what was compared."""
    if wanted is None:
        return Verdict.ORACLE_GAVE_UP, "the reference raises where it is replayed", _NOTHING
    judge = Judge(case)
    verdict, words = judge.apart_from_values(outcome)
    if verdict is not None:
        return verdict, f"{verdict.name}: {words}", _NOTHING
    found = compared(wanted, returned(case, outcome.outputs), dtype, [*case.outputs])
    if found.wrong:
        return Verdict.FAIL_NUMERIC, found.wrong, found
    if outcome.changes:
        return Verdict.FAIL_PROCESS, changes_text(outcome.changes), found
    return (Verdict.PASS if found.judged else Verdict.ORACLE_GAVE_UP), "", found


def _inputs(case: Case) -> str:
    """A key of what it is called with."""
    return replace(case, params={}).digest


def _ruling(solution: str, kernel: str, targets: Sequence[Target], run: _Run) -> SolutionRuling:
    lines = [run.lines[each.id] for each in targets if each.kernel.name == kernel]
    said = worst_of(each.said() for each in lines if each.said() != "did not run")
    largest = dict[str, float]()
    for line in lines:
        for dtype, ratio in line.largest.items():
            largest[dtype] = max(ratio, largest.get(dtype, 0.0))
    reason = next((each.reason for each in lines if each.reason), "")
    if said == "undecided":
        undecided = max(each.undecided for each in lines)
        reason = f"{undecided} of {run.cases} cases have no element that a replay decides"
    failures = tuple(_failure(*line.worst) for line in lines if line.worst is not None)
    return SolutionRuling(
        solution, said, sum(each.judged for each in lines), sum(each.failing for each in lines), largest, failures,
        "" if said == "right" or failures else reason, (), (), "",
    )  # fmt: skip


def _failure(case: ReplayCase, verdict: Verdict, words: str, found: Comparison) -> dict[str, Any]:
    place, got, expected, allowed = found.place or ("", "", "", "")
    return {
        "verdict": verdict.name, "said": words, "case": case.text,
        "shapes": {name: list(each.shape) for name, each in case.arrays.items()}, "recipes": dict(case.recipes),
        "dtype": case.dtype, "place": place, "got": got, "expected": expected, "allowed": allowed,
    }  # fmt: skip


def _told(ruling: SolutionRuling, kernel: str) -> str:
    each = min(ruling.failures, key=lambda each: sum(int(np.prod(some)) for some in each["shapes"].values()))
    return f"FAIL  {kernel}  {each['said']}\n  {each['case']}, by replay"
