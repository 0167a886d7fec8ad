"""Transforms that a reference writes out: products with a constant matrix such as Fourier's, the discrete cosine
transform's or Hadamard's. Right kernels calculate them in stages, or as a convolution, so that the error of each result
depends on the whole row that enters, also where the matrix has small elements.

Such a matrix is recognised by its numbers, at both sets of extents with which the reference was read: its rows or its
columns are orthogonal, or it is a multiple of a partial isometry, as the cosines of a Fourier transform alone are; and
all rows are about as large everywhere. A matrix that picks elements is no transform: whoever picks makes no error. The
formula adds the sum of the row's magnitudes and subtracts it again, as for `torch.fft`, so that the budget includes
these errors.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Container, Sequence
from functools import reduce
from typing import Any

import numpy as np

from fuzz.references.dims import Dim
from fuzz.references.lines import FormulaLine, Lines, called, number, of_dims, template
from fuzz.references.sizes import Sizes
from fuzz.references.text import formula
from oracles.doubledouble import F64
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import trace
from oracles.operand import OUTER

_FEWEST = 3
"""The fewest rows and columns of a matrix that is recognised. With two, one that picks an element is as even."""
_UNEVEN = 2.5
"""The largest square of a row's element, in means of the row's squares: 2 for a cosine, and up to 2.3 for the few first
bins of an inverse real transform, which count once where others count twice."""
_INDEPENDENT = 0.35
"""The least share of rows, or of columns if there are fewer, that are independent: 0.4 of five sines are, and one in n
rows of a matrix that is a product of a column and a row, which no fast algorithm needs."""
_AGREE = 1e-8
"""The largest difference from orthogonal, relative to the rows: angles of a million turns are rounded by 1e-9."""
_MOST = 1 << 22
"""The most elements of a matrix that is looked at."""


def make_room(lines: Lines, sizes: Sizes) -> Sequence[str]:
    """Let sums of products with the matrix of a transform err in proportion to the row that enters. Return the words by
    which the reference, or the formula, calls them."""
    found, order = list[str](), list[str]()
    for line in [*lines.found.values()]:
        before = len(lines.found)
        if (room := _room(lines, sizes, line.expression)) is not None:
            plain = FormulaLine(f"{len(lines.found)} {line.hint}", line.expression, line.hint)
            lines.found[plain.key] = plain
            line.expression = template("a + room - room", {"a": ast.Name(plain.key), "room": room})
            found.append(line.own or line.hint)
        order += [*[*lines.found][before:], line.key]
    lines.found = {key: lines.found[key] for key in order}
    return found


def _room(lines: Lines, sizes: Sizes, whole: ast.expr) -> ast.expr | None:
    """Return the sum of magnitudes to which the errors of a line's value are in proportion; None for other lines."""
    if isinstance(whole, ast.UnaryOp):
        return _room(lines, sizes, whole.operand)
    if not isinstance(whole, ast.Call) or called(whole) not in ("total", "dot"):
        return None
    *summed, over = whole.args
    product = reduce(_times, summed)
    rooms = (_room_of(lines, sizes, each, over) for each in _terms(lines, product))
    there = [each for each in rooms if each is not None]
    return lines.add(reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), there), "size") if there else None


def _room_of(lines: Lines, sizes: Sizes, term: ast.expr, over: ast.expr) -> ast.expr | None:
    """Return the sum of magnitudes of one term of a sum; None for one without the matrix of a transform."""
    factors = _factors(lines, term)
    table = [each for each in factors if not _enters(lines, each)]
    values = [each for each in factors if each not in table]
    if not table or not values:
        return None
    w, along = reduce(_times, table), {node.value for node in ast.walk(over) if isinstance(node, ast.Constant)}
    every = _dims_of_transform(lines, sizes, w, along)
    return every and template("f.greatest(abs(w), every) * f.total(abs(x), over)", {
        "w": w, "every": of_dims(every), "x": reduce(_times, values), "over": over})  # fmt: skip


def _dims_of_transform(lines: Lines, sizes: Sizes, table: ast.expr, along: Container[Any]) -> Sequence[Dim]:
    """Return the dimensions of the matrix of a transform, whose rows lie `along` some of them; () for another one."""
    free = [dim for dim in sizes.given.values() if dim.name != OUTER]
    names = [dim.name for dim in free]
    function, _ = formula("table", ["tensor"], lines, {"table": table}).run("<table>", __name__)
    graph = trace(function, {"tensor": names})
    node = graph.outputs["table"]
    known = {dim.name: dim for dim in sizes}
    dims = [known[name] for name in graph.dims if name in node.dims and name in known]
    if len(dims) < max(2, len(node.dims)):
        return ()
    for which in (0, 1):
        inputs = Inputs(graph, {"tensor": np.broadcast_to(0.0, [dim.sizes[which] for dim in free])}, {})
        places = [at for at, name in enumerate(graph.dims) if known.get(name) in along and name in node.dims]
        others = [at for at in range(len(graph.dims)) if at not in places]
        if math.prod(inputs.extents[dim.name] for dim in dims) > _MOST:
            return ()
        values = np.asarray(evaluate(inputs, Float64())[node]).transpose(*others, *places)
        if not is_transform(values.reshape(math.prod(values.shape[: len(others)]), -1)):
            return ()
    return dims


def is_transform(w: F64) -> bool:
    """Whether a matrix, with a row for each result, is that of a transform."""
    squares = w * w
    size = float(squares.sum())
    if min(w.shape) < _FEWEST or not 0.0 < size < math.inf:
        return False
    if np.any(squares.max(1) > _UNEVEN * squares.mean(1)):
        return False
    rows, columns = w @ w.T, w.T @ w
    if size * size < _INDEPENDENT * min(w.shape) * float((rows * rows).sum()):
        return False
    if _is_diagonal(rows) or _is_diagonal(columns):
        return True
    again = rows @ w
    return bool(np.abs(again - w * (np.sum(again * w) / size)).max() <= _AGREE * np.abs(again).max())


def _is_diagonal(gram: F64) -> bool:
    """Whether products of different rows are 0, relative to the lengths of the rows."""
    lengths = np.sqrt(gram.diagonal())
    return bool((np.abs(gram - np.diag(gram.diagonal())) <= _AGREE * np.outer(lengths, lengths)).all())


def _terms(lines: Lines, of: ast.expr) -> list[ast.expr]:
    """Return the terms of a sum or difference, without signs; another expression is its own only term."""
    whole = _of(lines, of)
    if isinstance(whole, ast.UnaryOp):
        return _terms(lines, whole.operand)
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Add | ast.Sub):
        return [*_terms(lines, whole.left), *_terms(lines, whole.right)]
    return [of]


def _factors(lines: Lines, of: ast.expr) -> list[ast.expr]:
    """Return the factors of a product or quotient, without signs; another expression is its own only factor."""
    whole = _of(lines, of)
    if isinstance(whole, ast.UnaryOp):
        return _factors(lines, whole.operand)
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Mult):
        return [*_factors(lines, whole.left), *_factors(lines, whole.right)]
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Div):
        return [*_factors(lines, whole.left), ast.BinOp(number(1.0), ast.Div(), whole.right)]
    return [of]


def _of(lines: Lines, of: ast.expr) -> ast.expr:
    line = lines.line(of)
    return of if line is None else line.expression


def _enters(lines: Lines, of: ast.expr) -> bool:
    """Whether an expression depends on an input."""
    names = {each.id for each in ast.walk(of) if isinstance(each, ast.Name)} - {"f", "float"}
    return any(name not in lines.found or _enters(lines, lines.found[name].expression) for name in names)


def _times(a: ast.expr, b: ast.expr) -> ast.expr:
    return ast.BinOp(a, ast.Mult(), b)
