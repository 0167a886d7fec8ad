"""Causes: many failures are few bugs. Failures that one rule covers have one cause, and a fault in a shared source
shows in each kernel that is made of it."""

from __future__ import annotations

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
from fuzz.explain.trial.trial import Family, traits_for

_MOST_FINDINGS = 5_000
_MOST_BYTES = 128 << 20
"""The most bytes of values that one pile keeps; further failures are counted, but not sorted. Chosen, not measured."""
_MOST_CAUSES = 6
"""The most causes of one pile, so that a kernel that is wrong everywhere is not explained piece by piece."""
_STRAYS = 0.03
"""The share of a pile up to which failures outside a rule that nearly fits count as strays, and not as another
cause."""


@dataclass
class Pile:
    """Failures that look alike, collected until they are sorted by cause."""

    findings: list[Finding] = field(default_factory=list)
    _bytes: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a failure with the outputs of the kernel, if there is room. If there is no time to sort the pile, this
        is all that is known of the failure."""
        returned = finding.judgement.outcome.outputs if finding.judgement.outcome is not None else {}
        size = sum(len(tensor.bits) for tensor in finding.case.inputs.values()) + sum(map(len, returned.values()))
        if len(self.findings) < _MOST_FINDINGS and self._bytes + size <= _MOST_BYTES:
            self._bytes += size
            self.findings.append(Finding(finding.case, finding.judgement))


@dataclass
class Cause:
    """A cause: the failures that one rule covers. The smallest has a diagnosis, the others are as they were seen."""

    finding: Finding
    members: list[Finding]
    way: str
    """The way in which the smallest failure was first seen to fail; after shrinking it may fail in another way."""

    def explains(self, finding: Finding, targets: Mapping[str, Target]) -> bool:
        """Return whether the cause covers a failure: by its rule, or without a rule by the way of failing. A stray
        access and a wrong value may be one bug, but nothing says so."""
        rule = self.finding.core
        if rule is None:
            return _way(finding) == self.way
        law = Family.of(finding.judgement).law
        return rule.holds(traits_for(finding.case, targets[finding.target], law))

    def excuses(self, finding: Finding) -> bool:
        """Return whether the failing run conforms to the contract by which the cause is explained."""
        fitting = self.finding.diagnosis.fitting if self.finding.diagnosis is not None else None
        run = TargetRun.failed(finding.case, finding.judgement) if fitting is not None and fitting.telling else None
        return fitting is not None and run is not None and run.conforms(fitting.neighbour.contract)


Diagnose = Callable[[Finding, Sequence[Rule]], Finding | None]
"""A function that diagnoses a finding, given the rules of other causes. It returns None if there is no time left."""


def causes_of(
    findings: Sequence[Finding], targets: Mapping[str, Target], diagnose: Diagnose,
    are_one: Callable[[Finding, Finding], bool] = lambda one, other: False,
) -> list[Cause]:  # fmt: skip
    """Return the causes of failures of one kernel and one family; each failure is a member of one cause. Two causes
    with different rules are joined if `are_one` says so.

    The smallest failure is diagnosed first, if possible one with finite results, since an overflow tells less of a
    cause that shows at ordinary magnitudes too. All failures that its rule covers belong to it. Then the smallest of
    the others is diagnosed, with probes that no known rule covers, and so on, until nothing is left or no rule is
    found. Without a rule only the verdicts tell failures apart.
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
        if cause.finding.core is None:  # its members may include other bugs, so their verdicts are reported
            cause.finding = cause.finding.with_others(cause.members)
    return found


def by_way(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings in groups by how they fail: two ways of failing may be two bugs."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(_way(finding), []).append(finding)
    return list(found.values())


def _way(finding: Finding) -> str:
    """Return how a finding fails: wrong values, a stray access, a crash, ..."""
    return Family.of(finding.judgement).name


def _has_rule(finding: Finding) -> bool:
    return finding.diagnosis is not None and finding.diagnosis.rule is not None


def one_condition(one: Rule | None, other: Rule | None) -> bool:
    """Return whether two rules differ only in numbers: then they are one condition, in separate bands."""
    if one is None or other is None or not one.atoms:
        return False
    return _but_for_numbers(one) == _but_for_numbers(other)


def _but_for_numbers(rule: Rule) -> set[tuple[Feature, tuple[str, ...]]]:
    return {(atom.trait, tuple(value for value in atom.values if isinstance(value, str))) for atom in rule.atoms}


def one_fault(one: Kernel, other: Kernel, rules: tuple[Rule | None, Rule | None]) -> bool:
    """Return whether failures of two kernels may have one cause: both are made of one source, and one rule has all
    conditions of the other.

    The further conditions say when a kernel reaches the shared source. Failures without a rule are never joined. Each
    kernel must also fail on the other's case: see `fails_on`.
    """
    if one == other or one.op != other.op or not shared_sources([one, other]):
        return False
    mine, theirs = (_conditions(rule) for rule in rules)
    return bool(mine and theirs) and (mine <= theirs or theirs <= mine)


def breadth(rule: Rule | None) -> int:
    """Return the number of conditions. The kernel whose rule has the fewest reaches the shared source most directly."""
    return len(rule.atoms) if rule is not None else 0


def fails_on(kernel: Kernel, verdicts: Mapping[str, str], targets: Mapping[str, Target]) -> bool:
    """Return whether a target of the kernel fails; `verdicts` are those of one case, by target."""
    own = (verdict for name, verdict in verdicts.items() if targets[name].kernel == kernel)
    return any(Verdict(verdict).is_finding for verdict in own)


def shared_cause(kernels: Collection[Kernel]) -> Attribution:
    """Return the attribution of failures that these kernels share."""
    shared = shared_sources(list(kernels))
    names = " and ".join(sorted(kernel.name for kernel in kernels))
    libraries = {each.resolve().name for kernel in kernels for each in kernel.libraries if isinstance(each, Path)}
    what = "library" if libraries.issuperset(shared) else "source"
    evidence = f"{names} are made of it, fail by the same rule, and each on the other's case"
    return Attribution(f"the shared {what} {' or '.join(shared)}", evidence)


def kernels_within(kernel: Kernel, kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return the kernels whose source is also part of the given kernel, so that their bugs are its bugs too."""
    parts, own = _parts(kernel), kernel.source.resolve()
    paths = [(other, other.source.resolve()) for other in kernels if other.op == kernel.op]
    return [other for other, path in paths if path != own and path in parts and _parts(other).get(path) == parts[path]]


def shared_sources(kernels: Sequence[Kernel]) -> list[str]:
    """Return the names of the files that all kernels are made of, or the source of the one that others include."""
    parts = [_parts(kernel) for kernel in kernels]
    common = {path for path, text in parts[0].items() if all(other.get(path) == text for other in parts[1:])}
    whole = common & {kernel.source.resolve() for kernel in kernels}
    return sorted(path.name for path in whole or common)


def _conditions(rule: Rule | None) -> frozenset[str]:
    """Return the conditions on the case as text; conditions on targets concern one kernel alone."""
    return frozenset(str(atom) for atom in rule.atoms if atom.trait.kind != "target") if rule else frozenset()


def _parts(kernel: Kernel) -> Mapping[Path, str]:
    """Return the texts of the files that the kernel is built from; none if a source holds several kernels."""
    adapter = adapter_of(kernel)
    return adapter.files(kernel) if adapter.kernel_per_source else {}
