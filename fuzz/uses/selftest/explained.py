"""Mutants explained: what the tool states, compared with what was planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel, Mutant
from fuzz.execute.pool import WorkerPool
from fuzz.judge.judge import Judgement
from fuzz.report.words import counterfactual_lines, rule_lines, what_is_wrong
from fuzz.triage.diagnosis import TimeAllowance, diagnose, never
from fuzz.triage.facts import explanation_of
from fuzz.triage.finding import Finding
from fuzz.triage.shrink.smallest import Swept, sweep
from fuzz.triage.trial.family import Family
from fuzz.triage.trial.trial import Trials

_EXPLAIN_S = 600.0
"""Seconds that no mutant needs: probes are counted, so that what is said depends on no clock."""


@dataclass(frozen=True)
class ExplainedMutant:
    """One mutant as it was found, shrunk and explained."""

    mutant: Mutant
    finding: Finding
    target: Target
    """The target on which it was shrunk."""
    seconds: float
    """The seconds from the first case to the last probe."""
    swept: Swept
    """It says whether the shrunk case is the smallest."""

    @property
    def stated(self) -> str:
        """What is said of it: when it fails, what all failing cases have in common, and what one change does."""
        told = explanation_of(self.finding, self.target)
        rules = (line for _, line in rule_lines(told))
        return "; ".join([what_is_wrong(told), *rules, *counterfactual_lines(told.counterfactuals)])

    @property
    def missing(self) -> tuple[str, ...]:
        """Words of the true trigger that the statement does not have."""
        return tuple(word for word in self.mutant.explained_as if word not in self.stated)

    @property
    def named(self) -> bool:
        """True where the statement names what was planted."""
        return not self.missing


def explained_on(
    base: Kernel, target: Target, case: Case, judgement: Judgement, stop: Callable[[], bool] = never
) -> Finding:
    """The finding with its diagnosis, by the base and by all targets, those included where it need not be
    killed."""
    everywhere = [each for each in expand([target.kernel, base]) if each.unavailable() is None]
    with WorkerPool(everywhere) as pool:
        return diagnose(pool, everywhere, Finding(case, judgement), TimeAllowance(_EXPLAIN_S, stop))


def swept(finding: Finding, kernel: Kernel, judgement: Judgement) -> Swept:
    """Everything smaller than the shrunk case, on the target on which it was shrunk.

    What a stray access shows differs from process to process: wrong values and faults are one way of failing.
    """
    target = next(each for each in expand([kernel]) if each.id == finding.target)
    with WorkerPool([target]) as pool:
        return sweep(Trials(pool, target, replace(Family.of(judgement), wide=True)), finding.case)
