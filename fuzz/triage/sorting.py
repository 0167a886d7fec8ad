"""Sorting: many failures into few buckets, one for each cause. Failures of which one rule holds have one cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.judge.judge import Judgement
from fuzz.triage.examination import Explained
from fuzz.triage.family import Family
from fuzz.triage.rule import Rule
from fuzz.triage.trial import traits_for

_MOST_SIGHTINGS = 5_000
_MOST_BYTES = 64 << 20
"""of the values of one pile: what comes after that is counted, and not sorted."""
_MOST_CAUSES = 6
"""of one pile: a kernel that is wrong everywhere in a different way each time is not explained in pieces."""
_STRAYS = 0.03
"""of a pile: so few failures beside a rule that nearly fits are no cause of their own."""


@dataclass(frozen=True)
class Sighting:
    """One failing run."""

    case: Case
    judgement: Judgement


@dataclass
class Pile:
    """Failing runs that look alike, as they come."""

    sightings: list[Sighting] = field(default_factory=list)
    more: int = 0
    """that were only counted."""
    _bytes: int = 0

    def add(self, case: Case, judgement: Judgement) -> None:
        """Remember a failing run, while there is room."""
        size = sum(len(tensor.bits) for tensor in case.inputs.values())
        if len(self.sightings) >= _MOST_SIGHTINGS or self._bytes + size > _MOST_BYTES:
            self.more += 1
            return
        self._bytes += size
        # What the kernel returned is not needed again, and is as large as the case.
        self.sightings.append(Sighting(case, replace(judgement, outcome=None, worst=None)))


@dataclass
class Cause:
    """Failures that one rule explains, with the examination of the smallest of them."""

    explained: Explained
    sightings: list[Sighting]

    @property
    def rule(self) -> Rule | None:
        """What tells its failures from others."""
        return self.explained.explanation.core


Examine = Callable[[Sighting, Sequence[Rule]], Explained | None]
"""None where there is no time for it any more."""


def causes_of(sightings: Sequence[Sighting], targets: Mapping[str, Target], examine: Examine) -> list[Cause]:
    """The causes of failures of one kernel and one family; their sightings are all of `sightings`.

    The smallest failure is examined; whatever its rule holds of is explained by it; then the smallest of the rest, by
    probes that keep away from what is explained already, until nothing is left or no further rule is found.
    """
    found: list[Cause] = []
    left = sorted(sightings, key=lambda sighting: size_of(sighting.case))
    while left:
        rules = [cause.rule for cause in found if cause.rule is not None]
        strays = found and len(left) <= _STRAYS * len(sightings) and found[0].explained.rule is not None
        explained = None if strays or len(found) >= _MOST_CAUSES else examine(left[0], rules)
        if explained is None or (found and Cause(explained, []).rule is None):
            if found:
                found[0].sightings += left
            break
        cause = Cause(explained, [])
        cause.sightings = [s for s in left if s is left[0] or _explains(cause.rule, s, targets)]
        taken = {id(sighting) for sighting in cause.sightings}
        found.append(cause)
        left = [sighting for sighting in left if id(sighting) not in taken]
    return found


def _explains(rule: Rule | None, sighting: Sighting, targets: Mapping[str, Target]) -> bool:
    """Without a rule there is no telling the failures apart."""
    if rule is None:
        return True
    law = Family.of(sighting.judgement).law
    return rule.holds(traits_for(sighting.case, targets[sighting.judgement.target], law))


def same_bug(one: Explained, other: Explained) -> bool:
    """True where two causes of one kernel, seen as different verdicts, are stated alike."""
    core = one.explanation.core
    return core is not None and str(core) == str(other.explanation.core)


def size_of(case: Case) -> tuple[int, int]:
    """Fewer elements first, then memory with fewer gaps."""
    tensors = case.inputs.values()
    return sum(t.layout.size for t in tensors), sum(t.layout.extent + t.layout.offset for t in tensors)
