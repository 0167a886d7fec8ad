"""How far a correct kernel may stray from a formula's exact value: the formula, read over affine forms.

The half-width that comes out is the tolerance by definition: the precise tier uses the same one around its own centre,
and simulated kernels check it (`oracles.formula.simulation`). It is never less than the supremum of the errors that the
contract allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import form
from oracles.formula import noise
from oracles.formula.contract import CORRECT
from oracles.formula.errors import either, marked, narrowed, taken
from oracles.formula.forms import Form, shared
from oracles.formula.operations import OPERATIONS
from oracles.formula.reductions import REDUCED
from oracles.formula.setting import Setting
from oracles.formula.trace import REDUCTIONS, Kind, Node
from oracles.lazy import lazy
from oracles.rounding import NAMES

_KEEPING: tuple[Kind, ...] = ("where", "point", "negate", "max", "absolute", "at_most", "less", "take")
"""These change no bits, and so take values of any dtype."""
_MOVING: tuple[Kind, ...] = ("where", "point", "take")
"""These calculate nothing, and so do not flush what they take."""
_ROUNDED_ONCE: tuple[Kind, ...] = ("add", "subtract", "multiply", "divide", "sqrt")
"""Where one of these is rounded correctly to the dtype of an output, its rounding is that of the output."""


@lru_cache(maxsize=4096)
def _number(value: float, low: float, rank: int) -> Form:
    power = abs(math.frexp(value)[0]) in (0.0, 0.5)
    rest = np.full((1,) * rank, abs(low)) if low else None
    return Form(np.full((1,) * rank, value), form("f64"), bits=1 if power else form("f64").precision, rest=rest)


@dataclass(frozen=True)
class Budget(Setting):
    """The forms of all values of a formula, for one contract and one problem."""

    @lazy
    def forms(self) -> Mapping[Node, Form]:
        """What kernels have for each node. Raises FormulaError for a formula that has no budget."""
        found: dict[Node, Form] = {}
        with np.errstate(all="ignore"):
            for node in self.inputs.trace.nodes:
                form = self._step(node, self._taken(found, node)) if node.args else self._leaf(node)
                found[node] = shared(form) if node in self.inputs.trace.joined else form
        return found

    @lazy
    def infinite(self) -> Mapping[Node, F64]:
        """The centres that overflow in every kernel, at least in places: there they are not the formula's values."""
        return {n: form.centre for n, form in self.forms.items() if n.args and np.isinf(form.centre).any()}

    def output(self, name: str, dtype: str) -> Form:
        """What kernels have for an output before they round it to its dtype."""
        node = self.inputs.trace.outputs[name]
        once = (
            node.kind in _ROUNDED_ONCE and self.contract.ulp("divide" if node.kind == "divide" else "sqrt") == CORRECT
        )
        if not once or self.dtype(node).name != dtype:
            return replace(self.forms[node], may=either([self.forms[node]]))
        with np.errstate(all="ignore"):
            found = self._step(node, self._taken(dict(self.forms), node), last=True)
        return replace(found, may=either([found]))

    def half_width(self, form: Form) -> F64:
        """How far values may lie from the centre, rounded up: a half-width is made of sums and products of float64
        numbers that are not negative, of which none was rounded more often than this allows for."""
        reduced = {node.label for node in self.inputs.trace.nodes if node.kind in REDUCTIONS}
        longest = max((self.inputs.extents[dim] for dim in reduced), default=1)
        return noise.half_width(form) * (1.0 + 2.0**-52 * (longest + 16) * len(self.inputs.trace.nodes))

    def _taken(self, found: dict[Node, Form], node: Node) -> list[Form]:
        """The arguments as the node takes them: errors that several elements take are symbols from here on, and what
        has more bits than the node's dtype is rounded to it."""
        wide = node.dims | {node.label} if node.kind in REDUCTIONS else node.dims
        dtype, args = self.dtype(node), list[Form]()
        for arg in node.args:
            if wide - arg.dims:
                found[arg] = shared(found[arg])
            each = found[arg] if node.kind in _KEEPING else narrowed(found[arg], dtype, self.contract)
            args.append(each if node.kind in _MOVING else taken(each, self.contract))
        return args

    def _leaf(self, node: Node) -> Form:
        values = self.inputs.leaf(node)
        if values.dtype == bool:
            return Form(values.astype(np.float64), form("f64"), bits=1)
        if node.kind == "tensor":
            dtype = form(NAMES.get(self.inputs.tensors[node.label].dtype, "f64"))
            wild = ~np.isfinite(values) if self.contract.nonfinite == "unspecified" else None
            may = wild if wild is not None and wild.any() else None
            return taken(Form(values, dtype, dtype.precision, may=may), self.contract)
        if values.size == 1:
            return _number(values.item(), node.low, values.ndim)
        return Form(values, form("f64"), bits=form("f64").precision)

    def _step(self, node: Node, args: Sequence[Form], *, last: bool = False) -> Form:
        if node.kind in REDUCED:
            found = REDUCED[node.kind](self, node, args)
        else:
            found = OPERATIONS[node.kind](self, node, args, last)
        if self.contract.nonfinite == "unspecified":
            return self._marked(node, args, found)
        return found

    def _marked(self, node: Node, args: Sequence[Form], form: Form) -> Form:
        """The form with a mark on what became infinite or NaN here: of the formula's own infinities nothing does."""
        wild = marked(*(~np.isfinite(each.centre) for each in args))
        if wild is not None and node.kind in REDUCED:
            wild = np.logical_or.reduce(wild, self.inputs.axis(node.label), keepdims=True)
        became = ~np.isfinite(form.centre)
        became = became if wild is None else became & ~wild | np.isnan(form.centre)
        return replace(form, may=marked(form.may, became)) if became.any() else form
