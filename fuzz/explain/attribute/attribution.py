"""Attribution: what a failure is tied to, concluded from who fails on one and the same case and who does not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from fuzz.core.adapters.registry import adapter_of
from fuzz.core.adapters.target import Target, causes_by_trait
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import Attribution
from fuzz.explain.rule.inducer import learn
from fuzz.explain.rule.rule import Rule
from fuzz.explain.rule.traits import target_traits

_RUNTIME = frozenset({"-lm", "-lc", "-ldl", "-lrt", "-lpthread", "-lgcc", "-lgomp", "-latomic", "-lstdc++"})
"""The libraries that come with a compiler: two kernels that call them need not have an author in common."""
_ENOUGH = 3
"""The number of witnesses that, failing alike, accuse the oracle or the case: two may have one author. Chosen."""


def attributed(
    target: Target, targets: Sequence[Target], judgements: Mapping[str, Judgement], rule: Rule | None = None
) -> Attribution:
    """Return what the failure on `target` is tied to, given the judgements of the same case on all targets. Which
    targets fail on one case may depend on the case, as short rows fail on short vectors only: a `rule` that was found
    by probing all targets says better which of their traits matter."""
    name = target.kernel.name
    told = [(each, judgements[each.id].verdict) for each in targets if each.id in judgements]
    own = [(each, verdict) for each, verdict in told if each.kernel.name == name and _says(verdict)]
    failing = [each for each, verdict in own if verdict.is_finding]
    passing = [each for each, verdict in own if not verdict.is_finding]
    others = _others(told, name)
    if not failing:
        return Attribution("earlier calls", f"{name} passes here on every target, so the failure needs calls before it")
    kernels = {each.kernel.name: each.kernel for each, _ in told}
    groups = witnesses([kernels[each] for each in (name, *others)])
    if len(groups) >= _ENOUGH and all(others.values()) and not passing:
        of = f" of {_sources(len(groups))}" if len(groups) <= len(others) else ""
        return Attribution(
            "the oracle or the case",
            f"all {len(others) + 1} kernels{of} that take the case fail on it, {name} among them",
        )
    cause, evidence = _within(name, failing, passing)
    if rule is not None and passing and rule.atoms:
        cause = _cause(rule, target.kernel)
    return Attribution(cause, "; ".join([evidence, *_witnessed(name, others, groups)]))


def _says(verdict: Verdict) -> bool:
    return verdict is Verdict.PASS or verdict.is_finding


def _others(told: Sequence[tuple[Target, Verdict]], name: str) -> dict[str, bool]:
    """Return, for each other kernel, whether it fails on some target."""
    others: dict[str, bool] = {}
    for target, verdict in told:
        if target.kernel.name != name and _says(verdict):
            others[target.kernel.name] = others.get(target.kernel.name, False) or verdict.is_finding
    return others


def witnesses(kernels: Sequence[Kernel]) -> list[frozenset[str]]:
    """Return the names of the kernels, grouped by source or library: a group's agreement counts once."""
    found: list[list[Kernel]] = []
    for kernel in kernels:
        alike = [group for group in found if any(_are_one(kernel, each) for each in group)]
        found = [group for group in found if group not in alike]
        found.append([kernel, *(each for group in alike for each in group)])
    return [frozenset(each.name for each in group) for group in found]


def _are_one(one: Kernel, other: Kernel) -> bool:
    """Whether both have a source file or a library in common, or one's source includes the other's."""
    if _borrowed(one) & _borrowed(other):
        return True
    mine, theirs = one.source.resolve(), other.source.resolve()
    return mine == theirs or mine in _files(other) or theirs in _files(one)


def _borrowed(kernel: Kernel) -> set[Path | str]:
    """Return what others wrote of it: the packages that it imports and the libraries that it is linked with."""
    libraries = (each.resolve() if isinstance(each, Path) else each for each in kernel.libraries)
    return {*kernel.packages, *(each for each in libraries if each not in _RUNTIME)}


def _code(kernel: Kernel) -> str:
    """Return what the kernel's author should look at: the source, or a library that it calls."""
    names = [Path(each).name for each in kernel.libraries if each not in _RUNTIME]
    if not names:
        return kernel.blamed
    what = "library" if len(names) == 1 else "libraries"
    return f"the {what} {' or '.join(names)}, or its caller {kernel.source.name}"


def _files(kernel: Kernel) -> Collection[Path]:
    """Return what the kernel is built of, if each source is one kernel's."""
    adapter = adapter_of(kernel)
    return adapter.files(kernel) if adapter.kernel_per_source else ()


def _witnessed(name: str, others: Mapping[str, bool], groups: Sequence[Collection[str]]) -> list[str]:
    """Return who else fails on the case and who agrees with the oracle, each source or library once."""
    own = next(group for group in groups if name in group)
    siblings = [others[each] for each in own if each != name]
    elsewhere = [each for each, fails in others.items() if fails and each not in own]
    agreeing = [group for group in groups if group is not own and not any(others[each] for each in group)]
    count = sum(map(len, agreeing))
    of = f" of {_sources(len(agreeing))}" if len(agreeing) < count else ""
    told = (
        (sum(siblings), " of the same source or library", "fails", "fail", " too"),
        (siblings.count(False), " of the same source or library", "agrees", "agree", " with the oracle"),
        (count, of, "agrees", "agree", " with the oracle"),
    )
    said = [
        f"another kernel{of} {one}{what}" if count == 1 else f"{count} other kernels{of} {many}{what}"
        for count, of, one, many, what in told
        if count
    ]
    if not elsewhere:
        return said
    who = f"{elsewhere[0]}, of another source or library, fails"
    if len(elsewhere) > 1:
        names = " and ".join(elsewhere) if len(elsewhere) < _ENOUGH else f"{len(elsewhere)} other kernels"
        who = f"{names}, of other sources or libraries, fail"
    # One failing case of two sources is two bugs, in a bucket each: nothing says that their faults are alike.
    return [f"{who} too: each has a bug, or the op says what nobody meant", *said]


def _sources(count: int) -> str:
    return "one source or library" if count == 1 else f"{count} sources or libraries"


def _within(name: str, failing: Sequence[Target], passing: Sequence[Target]) -> tuple[str, str]:
    """Return what the kernel's failing targets have in common and its passing ones lack."""
    count = len(failing)
    if not passing:
        where = f"on all {count} targets" if count > 1 else f"on {failing[0].id}, its only target here"
        return _code(failing[0].kernel), f"{name} fails {where}"
    own = [*failing, *passing]
    learned = learn([target_traits(target) for target in own], [target in failing for target in own])
    told = f"on {count} of {counted(len(own), 'target')}"
    if learned.exact and learned.rule.atoms and not learned.others:  # with two alternatives neither is what they share
        cause = _cause(learned.rule, failing[0].kernel)
        return cause, f"{name} fails {told}, those with {learned.rule}, and passes on the others"
    names = " ".join(target.name.where for target in failing[:4])
    return "some targets", f"{name} fails {told}: {names}{' ...' if count > 4 else ''}"


def _cause(rule: Rule, kernel: Kernel) -> str:
    about = causes_by_trait()
    named = dict.fromkeys(about[atom.trait.subject] for atom in rule.atoms if atom.trait.kind == "target")
    return " with ".join(named) or _code(kernel)
