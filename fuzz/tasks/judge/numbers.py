"""Small numbers in the place of the large ones of a problem, so that a case takes no seconds."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from types import ModuleType

_LARGE, _STEPS = 15, ((24, 8), (8, 4))
"""Whole numbers of a problem from 16 on are extents of a benchmark: they become multiples of 8 from 24 on, no two of
them one, or else of 4 from 8 on. Smaller ones say how many heads or groups there are, or the size of a window; but for
batches, which are no multiples, so that nothing else is as long, and for groups, into which all others divide."""
_PARTS = 8, 4, 2, 1
"""Where none of them makes a module, all but the batch become such a part, so that two that must be one stay so."""
_BATCHES = (5, 7, 11, 13)
LAST = 2
"""The tier of problems that are read where no other can be."""


class _Small(ast.NodeTransformer):
    """Puts small numbers in the place of large ones: those that `smaller` gives, for one name or for all."""

    def __init__(
        self, smaller: Callable[[int], int], taken: Iterable[int], kept: Collection[int], groups: int, *, by_name: bool
    ) -> None:
        self._small = smaller
        self._kept = kept
        self._groups = groups
        self._batches = (size for size in _BATCHES if size not in taken)
        self._by_name = by_name
        self._smaller: dict[int, int] = {}

    def statement(self, node: ast.stmt) -> ast.stmt:
        if self._by_name:
            self._smaller = {}
            if batch := _number_called(node, "batch"):
                self._smaller[batch] = next(self._batches, batch)
            groups = _number_called(node, "group")
            if groups is not None and groups > _LARGE:
                self._smaller[groups] = self._groups
        found: ast.stmt = self.visit(node)
        return found

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if not isinstance(value, int) or isinstance(value, bool) or value in self._kept:
            return node
        if value > _LARGE or value in self._smaller:
            if value not in self._smaller:
                self._smaller[value] = self._small(value)
            return ast.copy_location(ast.Constant(self._smaller[value]), node)
        return node


def _next_of(free: Iterator[int], _: int) -> int:
    return next(free)


def _part_of(part: int, size: int) -> int:
    return size // part


def with_smaller_batches(text: str) -> Iterator[tuple[str, int, ast.Module]]:
    """Return the text with a half, a quarter and so on of its first batch, and what that is called."""
    size = batch_of(text)
    while size > 1:
        size //= 2
        tree = ast.parse(text)
        own = next(each for each in tree.body if (_number_called(each, "batch") or 0) > 1)
        assert isinstance(own, ast.Assign)
        own.value = ast.copy_location(ast.Constant(size), own.value)
        yield ast.unparse(own.targets[0]), size, tree


def batch_of(text: str) -> int:
    """Return the first batch of a text that has several rows; 0 where it has none."""
    return next((size for each in ast.parse(text).body if (size := _number_called(each, "batch") or 0) > 1), 0)


def _number_called(node: ast.stmt, word: str) -> int | None:
    """The number that a statement gives a name with that word; None of others."""
    named = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and word in node.targets[0].id
    value = node.value if named and isinstance(node, ast.Assign) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


def with_numbers(text: str, read: Collection[str]) -> Iterator[tuple[int, ast.Module]]:
    """Return the text with other numbers, by tier, but with its own under the names that are `read`, as a solution
    has numbers of its own there."""
    tree = ast.parse(text)
    own = [each for each in tree.body if _defined(each) & {*read}]
    taken, kept = _whole_numbers(tree), frozenset[int]().union(*map(_whole_numbers, own))
    for tier, (first, step) in enumerate(_STEPS):
        for by_name in (True, False):
            free = (size for size in count(first, step) if size not in taken)
            yield tier, _with(text, read, _Small(partial(_next_of, free), taken, kept, step, by_name=by_name))
    for part in _PARTS:
        yield LAST, _with(text, read, _Small(partial(_part_of, part), taken, kept, 1, by_name=True))
    yield LAST, tree


def _whole_numbers(tree: ast.AST) -> frozenset[int]:
    return frozenset(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, int)
    )


def _with(text: str, read: Collection[str], small: _Small) -> ast.Module:
    """Only what stands at the top, where the extents are, and in the functions that make inputs."""
    tree = ast.parse(text)
    for at, each in enumerate(tree.body):
        is_maker = isinstance(each, ast.FunctionDef) and each.name.startswith("get_")
        if (isinstance(each, (ast.Assign, ast.AnnAssign)) or is_maker) and not _defined(each) & {*read}:
            tree.body[at] = small.statement(each)
    return tree


def read_by(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return names with all that what stands at the top of a module under them reads by itself, and that this follows
    from. A text that is no Python has none."""
    try:
        waiting, found = [*ast.parse(text).body], {*names}
    except (SyntaxError, ValueError):  # whoever reads the solution says so
        return frozenset()
    while there := [each for each in waiting if _defined(each) & found]:
        waiting = [each for each in waiting if each not in there]
        found.update(*map(_read, there))
    return frozenset(found)


def _defined(node: ast.stmt) -> set[str]:
    """The names that a statement at the top gives something to."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def _read(node: ast.stmt) -> set[str]:
    """The names at the top that a statement reads, now or when it is called."""
    tables, found = [symtable.symtable(ast.unparse(node), "", "exec")], set[str]()
    while tables:
        table = tables.pop()
        symbols = [each for each in table.get_symbols() if each.is_referenced()]
        found |= {each.get_name() for each in symbols if each.is_global() or table.get_type() == "module"}
        tables += table.get_children()
    return found


def extents_in(module: ModuleType, names: Iterable[str]) -> frozenset[int]:
    """Return the whole numbers that names at the top of a module stand for."""
    waiting, found = [vars(module).get(name) for name in names], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, int):
            found.add(value)
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, Mapping):
            waiting += value.values()
    return frozenset(found)
