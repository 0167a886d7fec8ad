"""Faults that kernels share: one that lies in a source of which several are made shows in each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from fuzz.adapters.build import edited_source
from fuzz.adapters.registry import adapter_of
from fuzz.adapters.target import Target
from fuzz.base.kernel import Kernel
from fuzz.base.verdict import Verdict
from fuzz.triage.attribution import WHERE_IT_RUNS, Attribution
from fuzz.triage.rule import Rule


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
    sources = " or ".join(shared_sources(list(kernels)))
    names = " and ".join(sorted(kernel.name for kernel in kernels))
    return Attribution(
        f"the shared source {sources}", f"{names} are made of it, fail by the same rule, and each on the other's case"
    )


def shared_sources(kernels: Sequence[Kernel]) -> list[str]:
    """Names of the files of which all of them are made: the kernel that the others include, else what they include."""
    parts = [_parts(kernel) for kernel in kernels]
    common = {path for path, text in parts[0].items() if all(other.get(path) == text for other in parts[1:])}
    whole = common & {kernel.source.resolve() for kernel in kernels}
    return sorted(path.name for path in whole or common)


def _conditions(rule: Rule | None) -> frozenset[str]:
    """Those on the case: where a kernel runs is its own affair."""
    return frozenset(str(atom) for atom in rule.atoms if atom.trait not in WHERE_IT_RUNS) if rule else frozenset()


def _parts(kernel: Kernel) -> Mapping[Path, str]:
    """Texts of the kernel's source, as it is built, and of what that includes, where a source is one kernel's."""
    adapter = adapter_of(kernel)
    return adapter.files(kernel, edited_source(kernel)) if adapter.kernel_per_source else {}
