"""A finding: the record of a failing case, from when it is seen until it is explained."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import Attribution, Counterfactual, Earlier, Explanation, Mechanism, UnsetRead, Unsteady
from fuzz.explain.rule.rule import Rule
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.explain.stages.counterfactuals import Fitting, held_against
from oracles.ops import OPS


@dataclass(frozen=True)
class Diagnosis:
    """The results of shrinking and probing a failure."""

    original: Case
    """The case as it was seen, before it was shrunk."""
    attribution: Attribution | None
    conclusion: Conclusion
    runs: int = 0
    """The number of cases that were run for the diagnosis."""
    whole: bool = True
    """Whether the diagnosis was finished; False if the time was over or somebody stopped it."""
    option: str = ""
    """The option that gives the diagnosis more time; '' if there is none."""
    fitting: Fitting | None = None
    """The neighbouring contract that its values conform to."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """The numbers of failures with other verdicts that count as the same cause, since no rule separates them."""
    others: tuple[Finding, ...] = ()
    """The smallest of these failures with each of those verdicts, as it was seen."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    """The results of changing one thing about the small case; changes that make it pass come first."""
    mechanism: Mechanism | None = None
    """What the kernel does wrong, if an experiment showed it."""
    unset: UnsetRead | None = None
    """The unset memory that the kernel reads, if its content decides."""
    unsteady: Unsteady | None = None
    """How the result of the same call varies, if it does."""
    clearest: Judgement | None = None
    """The judgement with the largest err/budget among all that failed during the diagnosis."""

    @property
    def rule(self) -> Rule | None:
        """The rule of when the kernel fails, if one agrees with every probe."""
        return self.conclusion.rule


@dataclass(frozen=True)
class Finding:
    """A failing case: seen first, then perhaps found to need earlier calls, in the end shrunk and explained."""

    case: Case
    """The case as it was seen; after the explanation, the smallest case that fails in the same way, unless the failure
    needs earlier calls."""
    judgement: Judgement
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """The verdicts on the case by target: first those of the other targets in the same session; after the explanation,
    those of all targets on the small case."""
    history: tuple[Case, ...] = ()
    """The calls that must come before the case, in one process."""
    earlier: Earlier | None = None
    """What must come before the case, in words; None if it fails alone, or if that is not known."""
    diagnosis: Diagnosis | None = None
    told: Explanation | None = None
    """The explanation of an earlier session, in place of a diagnosis."""

    @property
    def target(self) -> str:
        """The target on which the case fails."""
        return self.judgement.target

    @property
    def size(self) -> tuple[int, int]:
        """A sort key that puts cases first that are easier to understand."""
        return size_of(self.case)

    @property
    def is_whole(self) -> bool:
        """Whether the finding was explained in full."""
        return self.diagnosis is not None and self.diagnosis.whole

    @property
    def core(self) -> Rule | None:
        """The rule that tells the finding's cause from others; None without a diagnosis."""
        return self.diagnosis.conclusion.core if self.diagnosis is not None else None

    @property
    def original(self) -> str:
        """The digest of the case from which it was shrunk; '' if it was not."""
        return self.diagnosis.original.digest if self.diagnosis is not None else ""

    def with_band(self, core: Rule | None) -> Finding:
        """Return the finding with a band added to the rule of its cause: further failures, whose rule differs in
        numbers."""
        if self.diagnosis is None or self.core is None or core is None:
            return self
        conclusion = replace(self.diagnosis.conclusion, core=self.core.with_band(core))
        return replace(self, diagnosis=replace(self.diagnosis, conclusion=conclusion))

    def with_others(self, members: Iterable[Finding]) -> Finding:
        """Return the finding with those members of its cause that fail with other verdicts: the number of each verdict,
        and its smallest failure."""
        verdict = self.judgement.verdict
        others = sorted((each for each in members if each.judgement.verdict is not verdict), key=lambda each: each.size)
        if self.diagnosis is None or not others:
            return self
        beside = Counter(each.judgement.verdict.value for each in others)
        smallest = {each.judgement.verdict: each for each in reversed(others)}
        return replace(self, diagnosis=replace(self.diagnosis, beside=beside, others=tuple(smallest.values())))

    def held_against(self, failing: Iterable[Case]) -> Finding:
        """Return the finding whose counterfactuals are compared with other failing cases of its cause."""
        if self.diagnosis is None or not self.diagnosis.counterfactuals:
            return self
        nearby = held_against(self.diagnosis.counterfactuals, failing)
        return replace(self, diagnosis=replace(self.diagnosis, counterfactuals=nearby))

    def caused_by(self, attribution: Attribution) -> Finding:
        """Return the finding with another attribution."""
        if self.diagnosis is not None:
            return replace(self, diagnosis=replace(self.diagnosis, attribution=attribution))
        return self if self.told is None else replace(self, told=replace(self.told, attribution=attribution))


def size_of(case: Case) -> tuple[int, int]:
    """Return a sort key: fewer elements first, then memory with smaller gaps."""
    return case.elements, sum(t.layout.extent + t.layout.offset for t in case.inputs.values())


def changes(before: Case, after: Case) -> tuple[tuple[str, int, int], ...]:
    """Return the dimensions that shrinking reduced, each with its extent before and after."""
    one, two = Frame(before), Frame(after)
    facts = [(dim, size, two.sizes.get(dim, size)) for dim, size in one.sizes.items()]
    facts.append((OPS[before.op].batch_name, math.prod(one.batch), math.prod(two.batch)))
    return tuple(fact for fact in facts if fact[1] != fact[2])


def change(before: Case, after: Case) -> str:
    """Return what shrinking changed, in a few words for a line of progress: 'n 4097 -> 65, rows 3 -> 1'."""
    words = [f"{name} {old} -> {new}" for name, old, new in changes(before, after)]
    plainer = ["plainer values or layout"] if before.digest != after.digest else []
    return ", ".join(words or plainer)
