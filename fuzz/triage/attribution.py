"""Attribution: what a failure is tied to, told by who fails on one and the same case and who does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuzz.adapters.target import Target
from fuzz.base.verdict import Verdict
from fuzz.judge.judge import Judgement
from fuzz.triage.inducer import learn
from fuzz.triage.rule import Rule

_CAUSES: Mapping[str, str] = {
    "optimisation": "compiler and flags",
    "compiler": "compiler and flags",
    "processor": "the processor, real or emulated",
    "vector length": "vector length",
    "device": "the device",
}
"""What each trait of a target is about."""
WHERE_IT_RUNS = frozenset(_CAUSES)
"""The traits of targets."""


@dataclass(frozen=True)
class Attribution:
    """One sentence, and the short name of what is to blame."""

    cause: str
    """The short name of what is to blame: 'the kernel's source', 'compiler and flags', 'vector length', ..."""
    evidence: str

    def __str__(self) -> str:
        return f"{self.cause}: {self.evidence}"


def attributed(
    target: Target, targets: Sequence[Target], judgements: Mapping[str, Judgement], rule: Rule | None = None
) -> Attribution:
    """What the failure on `target` is tied to, given the judgements of the same case on all targets.

    Which targets fail on one case may depend on the case, as short rows fail on short vectors only: a `rule` that was
    found by probing all targets knows better what matters of them.
    """
    name = target.kernel.name
    told = [(each, judgements[each.id].verdict) for each in targets if each.id in judgements]
    own = [(each, verdict) for each, verdict in told if each.kernel.name == name and _says(verdict)]
    failing = [each for each, verdict in own if verdict.is_finding]
    passing = [each for each, verdict in own if not verdict.is_finding]
    others = _others(told, name)
    if not failing:
        return Attribution("earlier calls", f"{name} passes here on every target, so the failure needs calls before it")
    if len(others) > 1 and all(others.values()) and not passing:
        return Attribution(
            "the oracle or the case", f"all {len(others) + 1} kernels that take the case fail on it, {name} among them"
        )
    cause, evidence = _within(name, failing, passing)
    if rule is not None and passing and rule.atoms:
        cause = _cause(rule)
    agreeing = sum(not fails for fails in others.values())
    if agreeing:
        kernels = "another kernel agrees" if agreeing == 1 else f"{agreeing} other kernels agree"
        evidence += f"; {kernels} with the oracle"
    return Attribution(cause, evidence)


def _says(verdict: Verdict) -> bool:
    return verdict is Verdict.PASS or verdict.is_finding


def _others(told: Sequence[tuple[Target, Verdict]], name: str) -> dict[str, bool]:
    """By other kernel, whether it fails on some target."""
    others: dict[str, bool] = {}
    for target, verdict in told:
        if target.kernel.name != name and _says(verdict):
            others[target.kernel.name] = others.get(target.kernel.name, False) or verdict.is_finding
    return others


def _within(name: str, failing: Sequence[Target], passing: Sequence[Target]) -> tuple[str, str]:
    """What the kernel's failing targets have in common and its passing ones have not."""
    count = len(failing)
    if not passing:
        where = f"on all {count} targets" if count > 1 else f"on {failing[0].id}, its only target here"
        return "the kernel's source", f"{name} fails {where}"
    own = [*failing, *passing]
    learned = learn([dict(target.traits) for target in own], [target in failing for target in own])
    told = f"on {count} of {len(own)} targets"
    if learned.exact and learned.rule.atoms:
        return _cause(learned.rule), f"{name} fails {told}, those with {learned.rule}, and passes on the others"
    names = " ".join(target.name.where for target in failing[:4])
    return "some targets", f"{name} fails {told}: {names}{' ...' if count > 4 else ''}"


def _cause(rule: Rule) -> str:
    named = dict.fromkeys(_CAUSES[atom.trait] for atom in rule.atoms if atom.trait in _CAUSES)
    return " with ".join(named) or "the kernel's source"
