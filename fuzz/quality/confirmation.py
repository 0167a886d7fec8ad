"""What is stated of one planted bug, held against fresh cases, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuzz.quality.tree import Tree, grown
from fuzz.report.console import PlainTable
from fuzz.triage.evidence.evidence import Evidence
from fuzz.triage.explain.conclusion import Conclusion
from fuzz.triage.facts import stated
from fuzz.triage.rule.inducer import learn
from fuzz.triage.rule.rule import Traits

_RELEARNT = 1_000
"""A shorter rule is looked for among so many of the fresh cases."""


@dataclass(frozen=True)
class Confirmation:
    """What is stated of one bug, held against fresh cases."""

    bug: str
    stated: str
    about: bool
    cases: int
    failing: int
    false: int
    """Fresh cases of which the rule says that they fail, and which pass."""
    missed: int
    """Fresh cases that fail, of which the rule does not say so."""
    shorter: str
    """A shorter rule that is as right of the fresh cases; '' where there is none."""
    hidden: int
    """Fresh cases of which the rule says that they fail unless their values hide it, and which fail with ordinary
    values only."""
    tree_wrong: int
    """Fresh cases of which the tree says the wrong thing."""
    reach: str
    """What is stated besides, where the rule is not certain: when it fails only, and when always."""
    reach_wrong: int
    """Fresh cases of which that is wrong."""
    seconds: float
    trouble: str = ""

    @property
    def right(self) -> bool:
        """True iff the rule is true of exactly the fresh cases that fail, and no shorter one is."""
        return not (self.trouble or self.false or self.missed or self.shorter)

    @property
    def all_stated(self) -> str:
        """The rule, and how far the failure goes."""
        wrong = f" (wrong of {self.reach_wrong})" if self.reach_wrong else ""
        return f"{self.stated}; {self.reach}{wrong}" if self.reach else self.stated

    @property
    def word(self) -> str:
        """How it is, in a word or a few."""
        if self.trouble or self.right:
            return self.trouble or "right"
        wrong = self.false + self.missed
        return f"{'about' if self.about else 'false'}, wrong of {wrong}" if wrong else "longer than need be"


def unexplained(bug: str, trouble: str) -> Confirmation:
    """Return the record of a bug of which nothing is stated, with the reason."""
    return Confirmation(bug, "", False, 0, 0, 0, 0, "", 0, 0, "", 0, 0.0, trouble)


def compared(
    bug: str,
    conclusion: Conclusion,
    evidence: Evidence,
    fresh: tuple[list[Traits], list[bool], list[bool]],
    seconds: float,
) -> Confirmation:
    """What is stated, held against the traits of fresh cases, with which of them failed and of which values hide it."""
    learned, (traits, failed, hidden) = conclusion.learned, fresh
    assert learned is not None
    said = [learned.holds(each) and not hides for each, hides in zip(traits, hidden, strict=True)]
    tree = grown(evidence.traits, evidence.failed)
    reach, besides = conclusion.reach, list[str]()
    if reach is not None and reach.necessary.atoms:
        besides.append(f"only when {reach.necessary}")
    if reach is not None and reach.sufficient is not None:
        besides.append(f"always when {reach.sufficient}")
    return Confirmation(
        bug,
        "; or ".join(map(str, (learned.rule, *learned.others))) or "always",
        stated(conclusion) is None,
        len(traits),
        sum(failed),
        sum(rule and not bad for rule, bad in zip(said, failed, strict=True)),
        sum(bad and not rule for rule, bad in zip(said, failed, strict=True)),
        _shorter(conclusion, traits, failed) if said == failed else "",
        sum(hidden),
        _wrong(tree, traits, failed),
        "; ".join(besides),
        sum(
            reach is not None and not hides and not reach.agree(each, failed=bad)
            for each, bad, hides in zip(traits, failed, hidden, strict=True)
        ),
        round(seconds, 1),
    )


def _shorter(conclusion: Conclusion, traits: Sequence[Traits], failed: Sequence[bool]) -> str:
    """A shorter rule that is right of all fresh cases."""
    learned = conclusion.learned
    assert learned is not None
    if not any(failed):
        return ""
    size = sum(rule.size for rule in (learned.rule, *learned.others))
    relearnt = learn(traits[:_RELEARNT], failed[:_RELEARNT]) if any(failed[:_RELEARNT]) else learned
    shorter = sum(rule.size for rule in (relearnt.rule, *relearnt.others)) < size
    return str(relearnt.rule) if shorter and [relearnt.holds(each) for each in traits] == list(failed) else ""


def _wrong(tree: Tree, traits: Sequence[Traits], failed: Sequence[bool]) -> int:
    return sum(tree.holds(each) != bad for each, bad in zip(traits, failed, strict=True))


def table(found: Sequence[Confirmation]) -> PlainTable:
    rows = []
    for each in found:
        counted = "" if each.trouble else f"{each.false}+{each.missed} of {each.cases}"
        counted += f", {each.hidden} hidden" if each.hidden else ""
        rows.append(
            (each.bug, each.word, counted, str(each.failing), str(each.tree_wrong), each.shorter, each.all_stated)
        )
    return PlainTable(("bug", "rule", "false+missed", "failing", "tree wrong", "shorter", "stated"), rows)


def summary(found: Sequence[Confirmation]) -> Iterator[str]:
    """How many are right, and what is false though it is stated as certain."""
    known = [each for each in found if not each.trouble]
    certain = [each for each in known if not each.about]
    yield f"{sum(each.right for each in known)} of {len(known)} rules are exactly right and as short as can be"
    false = sum(bool(each.false or each.missed) for each in certain)
    trees = sum(not each.tree_wrong for each in known)
    yield f"{false} of {len(certain)} stated without 'about' are false"
    besides = [each for each in known if each.reach]
    wrong = sum(bool(each.reach_wrong) for each in besides)
    yield (
        f"{len(besides)} of the {len(known) - len(certain)} others say when it fails only, or when always; "
        f"{wrong} of these are false"
    )
    yield f"{trees} of {len(known)} trees of depth 3 on the same probes are right"
    yield f"{len(found) - len(known)} bugs were not explained"
