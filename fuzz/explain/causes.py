"""Causes: many failures are few bugs. Failures of which one rule holds have one cause, and a fault in a source of which
several kernels are made shows in each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.contracts.runs import TargetRun
from fuzz.core.adapters.registry import adapter_of
from fuzz.core.adapters.target import Target
from fuzz.core.base.feature import Feature
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.verdict import Verdict
from fuzz.explain.explanation import Attribution
from fuzz.explain.finding import Finding
from fuzz.explain.rule.rule import Rule
from fuzz.explain.trial.family import Family
from fuzz.explain.trial.trial import traits_for

_MOST_FINDINGS = 5_000
_MOST_BYTES = 128 << 20
"""The values of one pile may take this many bytes: what comes after that is counted, and not sorted. The limit was
chosen, not measured."""
_MOST_CAUSES = 6
"""One pile has at most this many causes: a kernel that is wrong everywhere in a different way each time is not
explained in pieces."""
_STRAYS = 0.03
"""Failures outside a rule that nearly fits are no cause of their own where they are at most this share of a pile."""


@dataclass
class Pile:
    """Failures that look alike, as they come, until they are sorted by their causes."""

    findings: list[Finding] = field(default_factory=list)
    _bytes: int = 0

    def add(self, finding: Finding) -> None:
        """Remember a failure, while there is room. What the kernel returned is kept: where there is no time to sort the
        pile, that is all that is known of the failure."""
        returned = finding.judgement.outcome.outputs if finding.judgement.outcome is not None else {}
        size = sum(len(tensor.bits) for tensor in finding.case.inputs.values()) + sum(map(len, returned.values()))
        if len(self.findings) < _MOST_FINDINGS and self._bytes + size <= _MOST_BYTES:
            self._bytes += size
            self.findings.append(Finding(finding.case, finding.judgement))


@dataclass
class Cause:
    """Failures that one rule explains: the smallest of them with its diagnosis, and all of them as they were seen."""

    finding: Finding
    members: list[Finding]
    way: str
    """How it showed when it was seen: smaller, it may show in another way."""

    def explains(self, finding: Finding, targets: Mapping[str, Target]) -> bool:
        """True where the rule holds of the failure; where there is none, of what fails in the same way: a stray access
        and a wrong value may be one bug, and are not known to be."""
        rule = self.finding.core
        if rule is None:
            return _way(finding) == self.way
        law = Family.of(finding.judgement).law
        return rule.holds(traits_for(finding.case, targets[finding.target], law))

    def excuses(self, finding: Finding) -> bool:
        """Return whether the contract by which the cause is told allows what the failing run returned."""
        fitting = self.finding.diagnosis.fitting if self.finding.diagnosis is not None else None
        run = TargetRun.failed(finding.case, finding.judgement) if fitting is not None and fitting.telling else None
        return fitting is not None and run is not None and run.conforms(fitting.neighbour.contract)


Diagnose = Callable[[Finding, Sequence[Rule]], Finding | None]
"""A function that diagnoses a finding, given the rules of other causes; it returns None where no time is left for
it."""


def causes_of(
    findings: Sequence[Finding], targets: Mapping[str, Target], diagnose: Diagnose,
    are_one: Callable[[Finding, Finding], bool] = lambda one, other: False,
) -> list[Cause]:  # fmt: skip
    """The causes of failures of one kernel and one family; their members are all of `findings`. Two of different rules
    may be one all the same, as `are_one` says.

    The smallest failure is diagnosed, of those with a number as result if there are any, as what overflows tells less
    of a cause that shows at ordinary magnitudes too; whatever its rule holds of is explained by it; then the smallest
    of the rest, by probes that keep away from what is explained already, until nothing is left or no further rule is
    found. Without a rule nothing but the verdict tells failures apart.
    """
    found: list[Cause] = []
    rules: list[Rule] = []
    left = sorted(findings, key=lambda each: (each.judgement.verdict is Verdict.FAIL_NONFINITE, each.size))
    while left:
        few = found and len(left) <= _STRAYS * len(findings) and _has_rule(found[0].finding)
        strays = few and {_way(each) for each in left} <= {each.way for each in found}
        diagnosed = None if strays or len(rules) >= _MOST_CAUSES else diagnose(left[0], rules)
        if diagnosed is None:
            if found:
                found[0].members += left
            break
        way = _way(left[0])
        known = next((each for each in found if each.way == way), None)
        if diagnosed.core is None and known is not None:
            known.members += [each for each in left if _way(each) == way]
            left = [each for each in left if _way(each) != way]
            continue
        cause = Cause(diagnosed, [], way)
        cause.members = [each for each in left if each is left[0] or cause.explains(each, targets)]
        taken = {id(each) for each in cause.members}
        band = next((each for each in found if one_condition(each.finding.core, diagnosed.core)), None)
        band = band or next((each for each in found if are_one(each.finding, diagnosed)), None)
        if band is None:
            found.append(cause)
        else:
            band.members += cause.members
            band.finding = band.finding.with_band(diagnosed.core)
        rules += [diagnosed.core] if diagnosed.core is not None else []
        left = [each for each in left if id(each) not in taken]
    for cause in found:
        cause.finding = cause.finding.held_against(each.case for each in cause.members)
        if cause.finding.core is None:  # what is put to it may be another bug: it is said, and not hidden
            verdicts = Counter(each.judgement.verdict.value for each in cause.members)
            cause.finding = cause.finding.with_others(verdicts)
    return found


def by_way(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The findings by how they show: what shows in two ways may be two bugs."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(_way(finding), []).append(finding)
    return list(found.values())


def _way(finding: Finding) -> str:
    """How it shows: as wrong values, a stray access, a crash."""
    return Family.of(finding.judgement).name


def _has_rule(finding: Finding) -> bool:
    return finding.diagnosis is not None and finding.diagnosis.rule is not None


def one_condition(one: Rule | None, other: Rule | None) -> bool:
    """True where two rules differ in numbers only: one condition, whose bands lie apart."""
    if one is None or other is None or not one.atoms:
        return False
    return _but_for_numbers(one) == _but_for_numbers(other)


def _but_for_numbers(rule: Rule) -> set[tuple[Feature, tuple[str, ...]]]:
    return {(atom.trait, tuple(value for value in atom.values if isinstance(value, str))) for atom in rule.atoms}


def one_fault(one: Kernel, other: Kernel, rules: tuple[Rule | None, Rule | None]) -> bool:
    """True where failures of two kernels may have one cause: both have an own source in common, and are stated alike.

    Further conditions of one are those under which it comes to that source; without a rule nothing is known to be
    alike. What else there must be is that each fails on the other's case: see `fails_on`.
    """
    if one == other or one.op != other.op or not shared_sources([one, other]):
        return False
    mine, theirs = (_conditions(rule) for rule in rules)
    return bool(mine and theirs) and (mine <= theirs or theirs <= mine)


def breadth(rule: Rule | None) -> int:
    """Smaller for the rule with fewer conditions: it belongs to the kernel that comes to the source by the shortest
    way."""
    return len(rule.atoms) if rule is not None else 0


def fails_on(kernel: Kernel, verdicts: Mapping[str, str], targets: Mapping[str, Target]) -> bool:
    """True where one of the kernel's targets fails; `verdicts` are those of one case, by target."""
    own = (verdict for name, verdict in verdicts.items() if targets[name].kernel == kernel)
    return any(Verdict(verdict).is_finding for verdict in own)


def shared_cause(kernels: Collection[Kernel]) -> Attribution:
    """What the failures of these kernels are tied to."""
    shared = shared_sources(list(kernels))
    names = " and ".join(sorted(kernel.name for kernel in kernels))
    libraries = {each.resolve().name for kernel in kernels for each in kernel.libraries if isinstance(each, Path)}
    what = "library" if libraries.issuperset(shared) else "source"
    evidence = f"{names} are made of it, fail by the same rule, and each on the other's case"
    return Attribution(f"the shared {what} {' or '.join(shared)}", evidence)


def kernels_within(kernel: Kernel, kernels: Iterable[Kernel]) -> list[Kernel]:
    """Those of the kernels of whose source the kernel is made too, so that their bugs are its own."""
    parts, own = _parts(kernel), kernel.source.resolve()
    paths = [(other, other.source.resolve()) for other in kernels if other.op == kernel.op]
    return [other for other, path in paths if path != own and path in parts and _parts(other).get(path) == parts[path]]


def shared_sources(kernels: Sequence[Kernel]) -> list[str]:
    """Names of the files of which all of them are made: the kernel that the others include, else what they include."""
    parts = [_parts(kernel) for kernel in kernels]
    common = {path for path, text in parts[0].items() if all(other.get(path) == text for other in parts[1:])}
    whole = common & {kernel.source.resolve() for kernel in kernels}
    return sorted(path.name for path in whole or common)


def _conditions(rule: Rule | None) -> frozenset[str]:
    """Those on the case: where a kernel runs is its own affair."""
    return frozenset(str(atom) for atom in rule.atoms if atom.trait.kind != "target") if rule else frozenset()


def _parts(kernel: Kernel) -> Mapping[Path, str]:
    """What the kernel is made of, as it is built, where a source is one kernel's."""
    adapter = adapter_of(kernel)
    return adapter.files(kernel) if adapter.kernel_per_source else {}
