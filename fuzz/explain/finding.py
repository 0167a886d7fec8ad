"""A finding: one record of a failing case, from the moment it is seen until it is explained."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import Attribution, Counterfactual, Explanation, Mechanism, UnsetRead, Unsteady
from fuzz.explain.rule.rule import Rule
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.explain.stages.counterfactuals import held_against
from fuzz.explain.stages.declaration import Fitting
from oracles.ops import OPS


@dataclass(frozen=True)
class Diagnosis:
    """What shrinking and probing found out about a failure."""

    original: Case
    """The case as it was seen, before it was shrunk."""
    attribution: Attribution | None
    conclusion: Conclusion
    runs: int = 0
    """The number of cases that were run to find that out."""
    whole: bool = True
    """This is False where time ran out first, or somebody wanted to stop."""
    option: str = ""
    """The option that would have given the diagnosis more time; '' where there is none."""
    fitting: Fitting | None = None
    """The neighbouring contract that its values conform to."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """How many failures of other verdicts were put to it because no rule tells them from it."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    """What becomes of the small case with one thing changed; those that make it pass come first."""
    mechanism: Mechanism | None = None
    """What it does wrong, where an experiment shows it."""
    unset: UnsetRead | None = None
    """What it reads that nobody has set."""
    unsteady: Unsteady | None = None
    """How often the same call gives another result."""
    clearest: Judgement | None = None
    """The judgement, of all that failed meanwhile, whose error is the most times its budget."""

    @property
    def rule(self) -> Rule | None:
        """When it fails, where a rule agrees with every probe."""
        return self.conclusion.rule


@dataclass(frozen=True)
class Finding:
    """A failing case. It is seen first; then it may be known to need earlier calls; then it is shrunk and explained."""

    case: Case
    """The smallest case that fails in the same way, once it is explained; the one that was seen where that needs
    calls."""
    judgement: Judgement
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """The verdicts by target: what the others said of the same case; once it is explained, what all of them say of the
    small one."""
    history: tuple[Case, ...] = ()
    """The calls that must come before the case, in one process."""
    diagnosis: Diagnosis | None = None
    told: Explanation | None = None
    """What an earlier session has explained, in place of a diagnosis."""

    @property
    def target(self) -> str:
        """The target on which the case fails."""
        return self.judgement.target

    @property
    def size(self) -> tuple[int, int]:
        """Smaller for the case that is easier to understand."""
        return size_of(self.case)

    @property
    def is_whole(self) -> bool:
        """Whether it was explained in full."""
        return self.diagnosis is not None and self.diagnosis.whole

    @property
    def core(self) -> Rule | None:
        """What tells its cause from others."""
        return self.diagnosis.conclusion.core if self.diagnosis is not None else None

    @property
    def original(self) -> str:
        """Digest of the case that it was shrunk from; '' where nobody has tried."""
        return self.diagnosis.original.digest if self.diagnosis is not None else ""

    def with_band(self, core: Rule | None) -> Finding:
        """The same finding, whose cause has further failures, by a rule that differs in numbers only."""
        if self.diagnosis is None or self.core is None or core is None:
            return self
        conclusion = replace(self.diagnosis.conclusion, core=self.core.with_band(core))
        return replace(self, diagnosis=replace(self.diagnosis, conclusion=conclusion))

    def with_others(self, verdicts: Counter[str]) -> Finding:
        """The same finding, to which failures of these verdicts were put."""
        beside = {verdict: count for verdict, count in verdicts.items() if verdict != self.judgement.verdict.value}
        if self.diagnosis is None or not beside:
            return self
        return replace(self, diagnosis=replace(self.diagnosis, beside=beside))

    def held_against(self, failing: Iterable[Case]) -> Finding:
        """The same finding, beside other failing cases of its cause."""
        if self.diagnosis is None or not self.diagnosis.counterfactuals:
            return self
        nearby = held_against(self.diagnosis.counterfactuals, failing)
        return replace(self, diagnosis=replace(self.diagnosis, counterfactuals=nearby))

    def caused_by(self, attribution: Attribution) -> Finding:
        """The same finding, tied to something else than it seemed to be."""
        if self.diagnosis is not None:
            return replace(self, diagnosis=replace(self.diagnosis, attribution=attribution))
        return self if self.told is None else replace(self, told=replace(self.told, attribution=attribution))


def size_of(case: Case) -> tuple[int, int]:
    """Fewer elements first, then memory with fewer gaps."""
    return case.elements, sum(t.layout.extent + t.layout.offset for t in case.inputs.values())


def changes(before: Case, after: Case) -> tuple[tuple[str, int, int], ...]:
    """Return what shrinking made smaller: each dimension whose extent changed, that before, and that after."""
    one, two = Frame(before), Frame(after)
    facts = [(dim, size, two.sizes.get(dim, size)) for dim, size in one.sizes.items()]
    facts.append((OPS[before.op].batch_name, math.prod(one.batch), math.prod(two.batch)))
    return tuple(fact for fact in facts if fact[1] != fact[2])


def change(before: Case, after: Case) -> str:
    """Return what shrinking changed in a few words for a line of progress: 'n 4097 -> 65, rows 3 -> 1'."""
    words = [f"{name} {old} -> {new}" for name, old, new in changes(before, after)]
    plainer = ["plainer values or layout"] if before.digest != after.digest else []
    return ", ".join(words or plainer)
