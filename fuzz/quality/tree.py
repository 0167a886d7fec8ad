"""A decision tree of traits: the plain way to say when something fails, against which rules are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fuzz.base.feature import Feature
from fuzz.triage.rule.rule import Trait, Traits

_DEPTH = 3
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Tree:
    """A question about one trait with two trees below it, or an answer."""

    fails: bool
    trait: Feature | None = None
    value: Trait = 0
    """A number: whether the trait is at most that; a word: whether it is that."""
    yes: Tree | None = None
    no: Tree | None = None

    def holds(self, traits: Traits) -> bool:
        """Whether it says of what has these traits that it fails."""
        if self.trait is None or self.yes is None or self.no is None:
            return self.fails
        return (self.yes if _answer(traits.get(self.trait), self.value) else self.no).holds(traits)


def grown(probes: Sequence[Traits], failed: Sequence[bool], depth: int = _DEPTH) -> Tree:
    """The tree that always asks what lowers the Gini impurity most."""
    bad = np.array(failed, dtype=bool)
    leaf = Tree(bool(bad.size and bad.mean() >= 0.5))
    if depth == 0 or not bad.any() or bad.all():
        return leaf
    best = min(_questions(probes), key=lambda question: _impurity(question[2], bad), default=None)
    if best is None or _impurity(best[2], bad) >= _gini(bad):
        return leaf
    trait, value, yes = best
    sides = []
    for side in (yes, ~yes):
        places: list[int] = np.flatnonzero(side).tolist()
        sides.append(grown([probes[place] for place in places], [failed[place] for place in places], depth - 1))
    return Tree(leaf.fails, trait, value, *sides)


def _questions(probes: Sequence[Traits]) -> Iterator[tuple[Feature, Trait, Mask]]:
    for trait in dict.fromkeys(name for traits in probes for name in traits):
        found = [traits.get(trait) for traits in probes]
        words = sorted({value for value in found if isinstance(value, str)})
        numbers = sorted({value for value in found if value is not None and not isinstance(value, str)})
        sizes = np.array([np.nan if value is None or isinstance(value, str) else value for value in found], float)
        at_most = ((value, sizes <= value) for value in numbers[:-1])
        for value, yes in (*((word, np.array([each == word for each in found])) for word in words), *at_most):
            if yes.any() and not yes.all():
                yield trait, value, yes


def _answer(found: Trait | None, value: Trait) -> bool:
    if isinstance(value, str) or isinstance(found, str) or found is None:
        return found == value
    return found <= value


def _impurity(yes: Mask, bad: Mask) -> float:
    return sum(float(side.mean()) * _gini(bad[side]) for side in (yes, ~yes))


def _gini(bad: Mask) -> float:
    share = float(bad.mean()) if bad.size else 0.0
    return 2.0 * share * (1.0 - share)
