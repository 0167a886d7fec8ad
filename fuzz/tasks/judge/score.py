"""The score of a solution, for those who train on it: 1 for a right one, and else half of what it passes of an exam.
The cases of the exam follow from the problem and the seed alone, so no solution has any influence on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from fuzz.campaign.corpus.folder import in_batches
from fuzz.campaign.search.examiner import Examiner
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.probe import GHOST
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.registry import Entry, with_twins
from fuzz.findings.axes import told, values_of
from fuzz.findings.tally import Observer
from fuzz.tasks.judge.ruling import Exam
from fuzz.tasks.task import PROBED_ONE_IN

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
