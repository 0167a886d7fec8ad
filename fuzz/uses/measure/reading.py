"""Reading a tree off a sum, by inputs that swamp (FPRev, arXiv 2411.00442).

One term is huge, another one its negative, and all others are 1: what is added to either before the two meet is lost,
and what is added afterwards is counted. So the sum says how many terms are below the addition at which they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from fuzz.uses.measure.tree import Joins, Tree

Pair = tuple[int, int]
Meeting = Callable[[Sequence[Pair]], Sequence[int | None]]
"""How many terms are below the addition at which each pair meets; None where the sum says nothing that could be."""


class UnreadableError(Exception):
    """A sum whose answers are those of no tree, or that takes too many questions."""


@dataclass
class _Path:
    """One term, and what it meets on its way up: at each addition one other sum, or several that are added at once."""

    term: int
    met: list[list[_Path]] = field(default_factory=list)


@dataclass
class _Task:
    """Terms of which one path is to be found, and perhaps several that meet something at one place."""

    found: list[_Path]
    terms: list[int]
    below: int
    """The number of terms below that place."""


def read_tree(n: int, meeting: Meeting, most: int) -> Tree:
    """Return the order of a sum of n terms, by at most so many questions. Raises UnreadableError."""
    found = list[_Path]()
    tasks = [_Task(found, list(range(n)), n + 1)]
    while tasks:
        most -= sum(len(each.terms) - 1 for each in tasks)
        if most < 0:
            raise UnreadableError("it takes too many questions")
        # From the middle, a plain loop is read in twice as many questions as it has terms, in either direction.
        pivots = [each.terms.pop(len(each.terms) // 2) for each in tasks]
        pairs = [(pivot, each) for pivot, task in zip(pivots, tasks, strict=True) for each in task.terms]
        answers = iter(meeting(pairs) if pairs else ())
        tasks = [
            more
            for pivot, task in zip(pivots, tasks, strict=True)
            for more in _split(pivot, task, [next(answers) for _ in task.terms])
        ]
    joins: Joins = []
    _join(found[0], n, joins)
    return Tree(n, tuple(joins))


def _split(pivot: int, task: _Task, answers: Sequence[int | None]) -> list[_Task]:
    """Note the path of a term; what is to be asked next."""
    met = list[tuple[int, int]]()
    for below, term in zip(answers, task.terms, strict=True):
        if below is None:
            raise UnreadableError("what is counted is no number of terms")
        met.append((below, term))
    path, size, tasks = _Path(pivot), 1, list[_Task]()
    task.found.append(path)
    for below, group in groupby(sorted(each for each in met if each[0] < task.below), key=lambda each: each[0]):
        terms, parts = [term for _, term in group], list[_Path]()
        if below != size + len(terms):
            raise UnreadableError("what meets does not add up")
        path.met.append(parts)
        tasks.append(_Task(parts, terms, below))
        size = below
    apart = [term for below, term in met if below >= task.below]
    return [*tasks, *([_Task(task.found, apart, task.below)] if apart else [])]


def _join(path: _Path, n: int, joins: Joins) -> int:
    value = path.term
    for parts in path.met:
        for part in parts:
            other = _join(part, n, joins)
            joins.append((value, other))
            value = n + len(joins) - 1
    return value
