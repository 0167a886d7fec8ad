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
from collections.abc import Callable, Container, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.lines import FormulaLine, Lines, called, number, template
from fuzz.references.sizes import Sizes
from fuzz.references.text import formula
from oracles.elementary import FormulaError
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import trace
from oracles.operand import OUTER

_FEWEST = 3
"""The fewest rows and columns of a matrix that is recognised. With two, one that picks an element is as even."""
_UNEVEN = 3.4
"""The largest square of a row's element, in means of the row's squares: 2 for a cosine, and at most 10/3 for the
inverse of a real transform, of eight places. For a row that picks one element it is the number of terms."""
_INDEPENDENT = 0.3
"""The least share of rows, or of columns if there are fewer, that are independent: a third of six sines are, and one
row of a matrix that is a product of a column and a row, which no fast algorithm needs."""
_AGREE = 1e-5
"""The largest difference from orthogonal, relative to the rows: a replay rounds elements by 1e-6 at most."""
_MOST = 1 << 24
"""The most elements of a matrix that is looked at."""
_LOOKED = 64
"""About how many rows and columns of a matrix are looked at."""
_SCALINGS: Mapping[str, Callable[[int], float]] = {
    "{0}": lambda n: 1.0, "{0} / f.sqrt(n)": lambda n: n**-0.5, "{0} / n": lambda n: 1.0 / n,
}  # fmt: skip
"""The largest element of a matrix as a template of the number n of terms, and as a function. Calculated in the formula
from the matrix, each exact element would take as long as all elements do."""
_ALIKE = 1.1
"""The largest ratio of two largest elements that count as the same: those of sines are 0.95 for 5 places, then 1."""
WAVE = "wave"
"""The hint of the sums that the rules of torch's own transforms make, with room already."""
FOURIER = frozenset(f"aten::{name}" for name in ("_fft_r2c", "_fft_c2c", "_fft_c2r"))
"""Torch's own transforms, of the axes that their second argument names."""
_PRODUCTS = frozenset(f"aten::{name}" for name in ("mm", "bmm", "mv", "addmm", "addmv", "baddbmm"))
"""Torch's products, whose last two tensors are the factors."""


def make_room(lines: Lines, sizes: Sizes) -> Sequence[str]:
    """Let sums of products with the matrix of a transform err in proportion to the row that enters. Return the words by
    which the reference, or the formula, calls them."""
    found, order = list[str](), list[str]()
    for line in [*lines.found.values()]:
        before = len(lines.found)
        if line.hint != WAVE and (room := _room(lines, sizes, line.expression)) is not None:
            plain = FormulaLine(f"{len(lines.found)} {line.hint}", line.expression, line.hint)
            lines.found[plain.key] = plain
            line.expression = template("a + room - room", a=ast.Name(plain.key), room=room)
            found.append(line.own or line.hint)
        order += [*[*lines.found][before:], line.key]
    lines.found = {key: lines.found[key] for key in order}
    return [*dict.fromkeys(found)]


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
    along = {node.value for node in ast.walk(over) if isinstance(node, ast.Constant)}
    scale = _scale(_looked_at(lines, sizes, reduce(_times, table), along))
    if not scale:
        return None
    n = template("f.extent(over)", over=over)
    return template(f"{scale} * f.total(abs(x), over)", n=n, x=reduce(_times, values), over=over)


def _scale(found: Sequence[tuple[float, int]]) -> str:
    """Return the template of the largest element of a transform's matrix, given that element and the number n of terms
    at both extents; "" if it does not follow from n as it does in usual scalings."""
    for text, scaling in _SCALINGS.items():
        least, *_, most = sorted(size / scaling(n) for size, n in found) or (0.0, math.inf)
        if most <= _ALIKE * least:
            return text.format(float(f"{1.02 * most:.2g}"))
    return ""


def _looked_at(lines: Lines, sizes: Sizes, table: ast.expr, along: Container[Any]) -> Sequence[tuple[float, int]]:
    """Return the largest element of the matrix of a transform, whose rows lie `along` some dimensions, and the number
    of its terms, at both extents; () for another matrix."""
    free = [dim for dim in sizes.given.values() if dim.name != OUTER]
    function, _ = formula("table", ["tensor"], lines, {"table": table}).run("<table>", __name__)
    try:
        graph = trace(function, {"tensor": [dim.name for dim in free]})
    except FormulaError:  # a number such as 0.5 is no matrix
        return ()
    node, known, found = graph.outputs["table"], {dim.name: dim for dim in sizes}, list[tuple[float, int]]()
    for which in (0, 1):
        inputs = Inputs(graph, {"tensor": np.broadcast_to(0.0, [dim.sizes[which] for dim in free])}, {})
        places = [at for at, name in enumerate(graph.dims) if known.get(name) in along and name in node.dims]
        others = [at for at in range(len(graph.dims)) if at not in places]
        # Of some dimensions no input says how long they are.
        if math.prod(inputs.extents.get(name, _MOST + 1) for name in node.dims) > _MOST:
            return ()
        values = np.asarray(evaluate(inputs, Float64())[node]).transpose(*others, *places)
        w = values.reshape(math.prod(values.shape[: len(others)]), -1)
        if not is_transform(w):
            return ()
        found.append((float(np.abs(w).max()), w.shape[1]))
    return found


def of_rows(name: str, args: Sequence[Any], size: Any) -> Any:
    """Return the sums of magnitudes to which errors of an operation of torch are in proportion, given those of each
    element: for a transform they are sums of the whole row that enters."""
    if name in FOURIER:
        return size.abs().amax(args[1], keepdim=True).expand_as(size)
    if name not in _PRODUCTS:
        return size
    a, b = [each for each in args if hasattr(each, "shape")][-2:]
    if _is_one_transform(a):
        size = size.maximum(a.abs().amax() * b.abs().sum(0 if b.dim() == 1 else -2, keepdim=True))
    if b.dim() > 1 and _is_one_transform(b.transpose(-1, -2)):
        size = size.maximum(b.abs().amax() * a.abs().sum(-1, keepdim=True))
    return size


def _is_one_transform(w: Any) -> bool:
    """Whether a tensor is the matrix of a transform, the same for a whole batch."""
    one = w[0] if w.dim() > 2 and w.shape[0] else w
    same = w.dim() == 2 or bool((w == one).all())
    return same and 0 < one.numel() <= _MOST and is_transform(one.detach().cpu().numpy())


def is_transform(w: NDArray[Any]) -> bool:
    """Whether a matrix, with a row for each result, is that of a transform. Of a large one some rows and columns are
    looked at."""
    if min(w.shape) < _FEWEST:
        return False
    rows, columns = w[:: 1 + len(w) // _LOOKED], w[:, :: 1 + w.shape[1] // _LOOKED]
    squares = np.abs(rows) ** 2
    if not 0.0 < (most := float(squares.max())) < math.inf:
        return False
    uneven = min(_UNEVEN, 0.8 * w.shape[1])
    if np.any(squares.max(1) > uneven * squares.mean(1) + _AGREE * most):  # sines of pi may be rows of 1e-16
        return False
    met = rows @ w.conj().T
    size, all_rows = float(squares.sum()), len(w) / len(rows)
    if size * size * all_rows < _INDEPENDENT * min(w.shape) * float((np.abs(met) ** 2).sum()):
        return False
    again = met @ w
    if np.abs(again - rows * (np.sum(again * rows.conj()) / size)).max() <= _AGREE * np.abs(again).max():
        return True
    return _are_orthogonal(met) or _are_orthogonal(columns.conj().T @ w)


def _are_orthogonal(met: NDArray[Any]) -> bool:
    """Whether each row or column has a product with one row or column only, itself."""
    sizes = np.sort(np.abs(met), axis=1)
    return bool(sizes[:, -2].max() <= _AGREE * sizes.max())


def _terms(lines: Lines, of: ast.expr) -> list[ast.expr]:
    """Return the terms of a sum or difference, without signs; another expression is its own only term."""
    whole = lines.opened(of)
    if isinstance(whole, ast.UnaryOp):
        return _terms(lines, whole.operand)
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Add | ast.Sub):
        return [*_terms(lines, whole.left), *_terms(lines, whole.right)]
    return [of]


def _factors(lines: Lines, of: ast.expr) -> list[ast.expr]:
    """Return the factors of a product or quotient, without signs; another expression is its own only factor."""
    whole = lines.opened(of)
    if isinstance(whole, ast.UnaryOp):
        return _factors(lines, whole.operand)
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Mult):
        return [*_factors(lines, whole.left), *_factors(lines, whole.right)]
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Div):
        return [*_factors(lines, whole.left), ast.BinOp(number(1.0), ast.Div(), whole.right)]
    return [of]


def _enters(lines: Lines, of: ast.expr) -> bool:
    """Whether an expression depends on an input."""
    names = {each.id for each in ast.walk(of) if isinstance(each, ast.Name)} - {"f", "float"}
    return any(name not in lines.found or _enters(lines, lines.found[name].expression) for name in names)


def _times(a: ast.expr, b: ast.expr) -> ast.expr:
    return ast.BinOp(a, ast.Mult(), b)
