"""Extents that follow from others: stated in `shapes`, as in "cos=s d/2", or found by trying a reference."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from fuzz.references.dims import UnreadableError
from oracles.formula.made import Counts, Multiples, extents_of, value_of
from oracles.formula.node import Node, ordered
from oracles.operand import OUTER

_RELATIVE = re.compile(r"(\d*)([a-z_][a-z0-9_]*)(?:/(\d+))?([+-]\d+)?")
"""An extent as `shapes` may state it, such as 2h, d/2 or n+1."""
_SAID = {"times_2": "twice", "by_2": "half"}
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
Dims = Mapping[str, tuple[str, ...]]


def related(dims: Dims) -> tuple[Dims, Counts]:
    """Return the dimensions of tensors with plain names, and the expressions of the extents that follow from others.
    Raises UnreadableError if the tensor with the most dimensions has both such a dimension and the one from which it
    follows."""
    counts, names = dict[str, Node](), dict[str, str]()
    for token in dict.fromkeys(token for some in dims.values() for token in some):
        found = _RELATIVE.fullmatch(token)
        if found is None and token != OUTER:
            raise UnreadableError(
                f"shapes: {token!r} is no name of a dimension, nor one such as 2h, d/2, n+1 or 2h-1: a factor, a name, "
                "a divisor and what is added, in that order"
            )
        if found is not None and found[2] != token:
            times, base, by, more = found.groups()
            names[token] = _name(base, times, by, more)
            counts[names[token]] = _count(base, int(times or 1), int(by or 1), int(more or 0))
    if not names:
        return dims, counts
    named = {name: tuple(names.get(token, token) for token in some) for name, some in dims.items()}
    return named, turned(named, counts)


def turned(dims: Dims, counts: Counts, integers: Container[str] = ()) -> Counts:
    """Return the same relations. A relation is inverted if it gives a dimension of the tensor with the most dimensions
    (a float tensor if there is one), or follows from a dimension that no tensor has."""
    main = dims[max(dims, key=lambda name: (name not in integers, len(dims[name])))]
    found = dict(counts)
    there = {dim for some in dims.values() for dim in some}
    for name in sorted(counts, key=lambda name: name not in main):
        base, *others = extents_of(counts[name])
        if others:  # windows of a gradient
            continue
        if name in main and (base in main or base in found):
            raise UnreadableError(f"shapes: {name} follows from {base}, and both are of one tensor: give it two")
        if name in main or not {base} & {*there, *found}:
            found[base] = _inverse(found.pop(name), name)
    return found


def likely(dims: Dims, fixed: Mapping[str, int], sizes: Mapping[str, int]) -> Iterator[Counts]:
    """Yield relations to try on a reference: in each, one extent is half of another, or the part that it is in examples
    of these `sizes`."""
    free = [dim for dim in dict.fromkeys(dim for some in dims.values() for dim in some) if dim not in fixed]
    main = max(dims.values(), key=len, default=())
    for whole in reversed(free):
        for part in free:
            times, rest = divmod(sizes.get(whole, 2), sizes.get(part, 1))
            if part != whole and not {part, whole} <= {*main} and times > 1 and not rest:
                yield turned(dims, {part: _count(whole, 1, times, 0)})


def said_of(counts: Counts) -> str:
    """Return the text of relations, such as "d_half = d / 2"."""
    return " and ".join(f"{name} = {_text(count)}" for name, count in counts.items())


def multiples_of(counts: Counts) -> Multiples:
    """Return the multiples, with remainders, that dimensions must be so that extents following from them are whole.
    Raises UnreadableError for a relation that is not linear in one extent."""
    found = dict[str, int | tuple[int, int]]()
    for name, count in counts.items():
        dims = extents_of(count)
        if len(dims) != 1 or any(each.kind not in (*_SIGNS, "extent", "constant") for each in ordered([count])):
            raise UnreadableError(
                f"{name}: nothing that it returns says how long that is: let no other dimension follow from it"
            )
        [base] = dims
        none, one = (value_of(count, {base: size}) for size in (0, 1))  # it is linear
        size, beside = (one - none).denominator, -none / (one - none)
        if size > 1 or beside > 1:  # n + 2 is not 1
            found[base] = size if not beside else (size, int(beside))
    return found


def rounded_of(counts: Counts) -> Mapping[str, int]:
    """Return the dimensions with a whole part in some count, such as d // 2, and its divisor."""
    found = dict[str, int]()
    for node in ordered([*counts.values()]):
        cut = node.args[0] if node.operation == "floor" else node
        if cut.kind == "divide" and cut is not node and cut.args[0].kind == "extent" and cut.args[1].kind == "constant":
            [dim] = extents_of(cut)
            found[dim] = int(cut.args[1].value)
    return found


def _text(count: Node) -> str:
    if not count.args:
        return count.label or f"{count.value:g}"
    if count.kind not in _SIGNS:
        return f"{count.operation}({_text(count.args[0])})"
    a, b = (f"({_text(arg)})" if arg.kind in ("add", "subtract") else _text(arg) for arg in count.args)
    return f"{a} {_SIGNS[count.kind]} {b}"


def _name(base: str, times: str, by: str, more: str) -> str:
    parts = [f"times_{times}"] * bool(times) + [f"by_{by}"] * bool(by)
    parts += [("plus_" if more[0] == "+" else "less_") + more[1:]] if more else []
    return "_".join([base, *(_SAID.get(part, part) for part in parts)])


def _count(base: str, times: int, by: int, more: int) -> Node:
    found = Node("extent", label=base)
    found = found * float(times) if times != 1 else found
    found = found / float(by) if by != 1 else found
    return found + float(more) if more > 0 else found - float(-more) if more else found


def _inverse(count: Node, name: str) -> Node:
    """Return the inverse of a count: the expression of its dimension's extent from that of `name`."""
    found, steps = Node("extent", label=name), list[Node]()
    while count.args:
        steps.append(count)
        count = count.args[0]
    for step in steps:
        number = step.args[1]
        found = {
            "add": found - number, "subtract": found + number, "multiply": found / number, "divide": found * number
        }[step.kind]  # fmt: skip
    return found
