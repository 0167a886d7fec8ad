"""Forms of means and of sums of squared deviations that are kept up to date, term by term or joined from parts.

Welford's update by a term and Chan's by a part are one: a part b of n_b terms is joined to a, which is no smaller, with
d = mean_b - mean_a and w = n_b / n: the mean is mean_a + w d, and the squares are those of both and c d^2, c = n_a w.
The c d^2 of all updates add up to the squares S, the c to at most C: n term by term, n log2(n) / 2 in any case.

A mean is a weighted mean of its parts, and so is its error, but for what is rounded at each update: u of the mean, and
4 u of w d (the difference, two in w, the product). Over all updates, of which the longest chain is h, with Cauchy and
Schwarz, s = sqrt(S / n), and |mean_p - mean| <= sqrt(S / n_p) for a part of n_p terms, the errors are to first order

    of the mean          u ((h + 1) (|mean| + s) + 8 s sqrt(C / n))
    of any part's mean   E = u ((h + 1) |mean| + (2 sqrt(h + 1) + 8 sqrt(C / n)) sqrt(S))
    of the squares       (2 h + 6) u S + 4 E sqrt(C S) + 4 C E^2

since each c d^2 goes through 6 roundings and two an update, and d is off by 2 E. The errors themselves grow by 5 u an
update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oracles.doubledouble import F64
from oracles.formula.affine.errors import Rounding, either, marked, rounded
from oracles.formula.affine.forms import DUST, Form
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.sums import any_along
from oracles.formula.trace import FormulaError, Node
from oracles.summation import Sequential


def updated(here: SettledProblem, node: Node, args: Sequence[Form]) -> Form:
    """The mean, or the sum of squared deviations from it."""
    (terms,) = args
    axes, n, dtype = here.inputs.axes(node), here.inputs.number(node), here.dtype(node)
    if math.prod(terms.centre.shape[axis] for axis in axes) != n:
        raise FormulaError(f"{node.kind} along {node.label!r}: there is one term alone for all places")
    if n == 0:
        shape = [1 if axis in axes else extent for axis, extent in enumerate(terms.centre.shape)]
        nothing = math.nan if node.kind == "welford_mean" else 0.0
        return Form(np.full(shape, nothing), dtype, dtype.precision)

    def over(values: F64) -> F64:
        found: F64 = values.sum(axes, keepdims=True)
        return found

    order, u = here.order(node), dtype.u
    chain, joined = order.chain(n) + 1, 1.0 if isinstance(order, Sequential) else max(1.0, math.log2(n) / 2)
    growth = math.exp(min(u * (5 * chain + 20), 700.0))
    mean, given = over(terms.centre) / n, over(terms.spread) / n
    away, moved = np.abs(terms.centre - mean), terms.spread + given
    squares, lost = over(away**2), over((2 * away + moved) * moved)
    root = np.sqrt(squares + lost)
    unit = dtype.tiny if here.contract.denormals != "preserve" else dtype.eta
    largest, apart = terms.size.max(axes, keepdims=True), (away + moved).max(axes, keepdims=True) * 2
    least = None
    if node.kind == "welford_mean":
        each = root / math.sqrt(n)
        errors = growth * u * (chain * (np.abs(mean) + given + each) + 8 * math.sqrt(joined) * each)
        centre, errors, reach = mean, errors + given + 3 * chain * unit, largest + apart
    else:
        each = growth * u * (chain * (np.abs(mean) + given) + (2 * math.sqrt(chain) + 8 * math.sqrt(joined)) * root)
        each = each + 3 * chain * unit
        errors = (2 * chain + 6) * u * growth * root**2 + 4 * each * math.sqrt(joined * n) * root
        errors = errors + (4 * each**2 + 4 * unit) * joined * n + lost
        centre, reach, least = squares, np.maximum(largest, apart) ** 2 * n, np.zeros((1,) * mean.ndim)
    finite = np.isfinite(centre)
    errors = np.where(finite, errors * (1 + 2.0**-40) + np.abs(centre) * DUST, 0.0)
    # After an infinity differences are NaN. A kernel that starts with a single term has no squares, whatever that is.
    single = n == 1 and node.kind == "welford_squares"
    may = any_along(marked(either(args), ~np.isfinite(terms.centre) if single else np.isinf(terms.centre)), axes)
    found = Form(centre, dtype, dtype.precision, rest=errors, may=may, least=least)
    uncertain = np.zeros(centre.shape, bool)
    return rounded(found, Rounding(underflow=0.0, reach=reach, certain=uncertain), here.contract)
