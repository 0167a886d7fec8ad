"""The calls that each worker process has had: what a failure may need that does not show in its case."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from fuzz.base.case import Case
from fuzz.base.outcome import Status
from fuzz.base.verdict import Verdict
from fuzz.findings.tally import Observer
from fuzz.judge.judge import Judgement

FIRST, LATEST = 8, 120
"""The numbers of calls of a process that are kept: the first ones, which a kernel may remember for ever, and the
latest."""

FindingId = tuple[str, str]
"""The target, and the digest of the failing case."""


@dataclass
class _CallsOfProcess:
    """The calls of one process, in order; those in the middle are forgotten."""

    first: list[Case] = field(default_factory=list)
    latest: deque[Case] = field(default_factory=lambda: deque(maxlen=LATEST))

    def add(self, case: Case) -> None:
        if len(self.first) < FIRST:
            self.first.append(case)
        else:
            self.latest.append(case)


@dataclass
class CallLog(Observer):
    """An observer that keeps, for the findings that `kept` names, the calls that came before."""

    kept: Callable[[], Collection[FindingId]]
    _processes: dict[str, _CallsOfProcess] = field(default_factory=dict)
    _before: dict[FindingId, tuple[Case, ...]] = field(default_factory=dict)

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        """The calls before that finding, as far as they are known."""
        return self._before.get(finding, ())

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        for judgement in judgements:
            if judgement.verdict is Verdict.NOT_RUN:
                continue
            process = self._processes.get(judgement.target)
            if process is None:
                process = self._processes[judgement.target] = _CallsOfProcess()
            if judgement.verdict is not Verdict.PASS and judgement.verdict.is_finding:
                calls = (*process.first, *process.latest)
                # A law's evidence is the case, which was called right before the twin that is judged here.
                broken = judgement.verdict is Verdict.FAIL_LAW
                self._before[judgement.target, judgement.case] = calls[:-1] if broken else calls
            if judgement.outcome is not None and judgement.outcome.status in (Status.DIED, Status.HUNG):
                del self._processes[judgement.target]
            else:
                process.add(case)

    def progress(self, elapsed: float) -> None:
        """Forget what came before findings that nobody keeps: every one of these holds many cases."""
        wanted = set(self.kept())
        self._before = {finding: calls for finding, calls in self._before.items() if finding in wanted}
