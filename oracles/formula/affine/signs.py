"""Signs: the sign of a value, zeros included, where every correct kernel has the same.

IEEE arithmetic gives each zero a sign, but that of a sum depends on how the kernel adds: x + 0.0 is +0 for x = -0.0,
and a kernel that leaves the 0.0 out has -0. Products, quotients and odd functions leave no choice. But a kernel may add
a zero in place of an absent addend, and then the sign of a zero is certain only if a nonzero value was rounded to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from oracles.enclosure import Flags, Mask
from oracles.formula.affine.forms import Form
from oracles.formula.chains import Chain
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs
from oracles.formula.exact.contraction import contracted, is_contraction
from oracles.formula.exact.counts import whole
from oracles.formula.node import CONTRACTIONS, TOLD
from oracles.formula.trace import Kind, Node
from oracles.lazy import lazy

_POSITIVE: tuple[Kind, ...] = ("extent", "position", *TOLD)
_SIGNING: tuple[Kind, ...] = ("multiply", "divide", "negate")
"""The operations that may change the sign of a zero."""
_CERTAIN = 1.0 + 2.0**-20
"""The factor by which a centre must be larger than its possible error for the value to have the centre's sign for
certain. The error is known to many more bits."""

_MINUS, _FREE, _PLUS = np.int8(-1), np.int8(0), np.int8(1)
"""The signs as single bytes, since a row may have millions of elements."""


class Signs:
    """The sign of each node: 1 or -1 if all kernels have it, zeros included, else 0."""

    def __init__(
        self, inputs: Inputs, forms: Mapping[Node, Form], complete: bool, chains: Mapping[Node, Chain]
    ) -> None:
        """`complete`: no operand is absent that would be added; `chains`: the sums of any order."""
        self.inputs, self.forms, self.complete, self.chains = inputs, forms, complete, chains
        self._found: dict[Node, Flags] = {}

    def __getitem__(self, node: Node) -> Flags:
        if node not in self._found:
            with np.errstate(all="ignore"):
                self._found[node] = self._signs(node)
        return self._found[node]

    def mirrored(self, node: Node, value: Form, zeros_have_signs: bool) -> Mask | None:
        """Return the mask of infinities with the sign of a zero, which differs between kernels, as in 1 / (a + b): a
        sum that starts from 0.0 is never -0. None: nowhere."""
        if node.kind == "pair":
            from oracles.formula.affine.paired import depends_on_zeros

            return depends_on_zeros(node, self.forms, self)
        poles = np.isinf(value.centre) & (True if value.may is None else ~value.may)
        if node.kind not in ("divide", "function") or not poles.any():
            return None
        arg = node.args[-1]
        zero = (self.forms[arg].centre == 0) & (self.forms[arg].spread == 0)
        found: Mask = poles & zero
        if not found.any():
            return None
        if node.kind == "function":
            minus, plus = Float64().apply(node.function, np.array([-0.0, 0.0]))
            if minus == plus:
                return None
        if zeros_have_signs:
            found = found & (self[arg] == 0)
        return found if found.any() else None

    def _signs(self, node: Node) -> Flags:
        form = self.forms[node]
        sign = (form.centre > 0).astype(np.int8) - (form.centre < 0)
        if not node.args:
            known = np.where(np.signbit(form.centre), _MINUS, _PLUS) if self.complete else sign
        else:
            known = np.where(np.abs(form.centre) > form.spread * _CERTAIN, sign, _FREE)
            if self.complete and not known.all():  # its operands say more only about these elements
                known = np.where(known != 0, known, self._of_sum_or_other(node))
            if self.inputs.integers and (zero := form.centre == 0).any() and node in self._integral:
                known = np.where(zero, _FREE, known)
        return np.where(np.isnan(form.centre), _FREE, known).astype(np.int8, copy=False)

    @lazy
    def _integral(self) -> frozenset[Node]:
        """Return the nodes of whole numbers that are made from integers alone, by operations that give a zero a sign: a
        kernel that calculates them as integers has no -0."""
        trace, plain, signed = self.inputs.trace, set[Node](), set[Node]()
        for node in trace.nodes:
            given = node.kind == "parameter" or (node.kind == "tensor" and node.label not in self.inputs.integers)
            if not given and all(arg in plain for arg in node.args):
                plain.add(node)
                if node.args and (node.kind in _SIGNING or not signed.isdisjoint(node.args)):
                    signed.add(node)
        return whole(trace, self.inputs.integers) & signed

    def _of_sum_or_other(self, node: Node) -> Flags:
        if node not in self.chains:
            return self._of_zero(node, [self[arg] for arg in node.args])
        first, *others = (self[term.node] * np.int8(term.sign) for term in self.chains[node].terms)
        for other in others:
            first = np.where(first == other, first, _FREE)
        return first

    def _of_zero(self, node: Node, args: list[Flags]) -> Flags:
        """Return the sign of a zero that follows from the signs of the arguments, or 0."""
        kind = node.kind
        if kind in ("multiply", "divide"):
            return args[0] * args[1]
        if kind in ("add", "subtract"):
            second = args[1] if kind == "add" else -args[1]
            return np.where(args[0] == second, args[0], _FREE)
        if kind == "negate":
            return -args[0]
        if kind == "where":
            mask = self.forms[node.args[0]]
            found = np.where(mask.centre != 0, args[1], args[2])
            return np.where((mask.spread > 0) & (args[1] != args[2]), _FREE, found)
        if kind == "point":
            return args[0]
        if kind == "function":
            return self._of_function(node, args[0])
        if kind == "pair":
            from oracles.formula.affine.paired import sign_of_zero

            return sign_of_zero(node, self.forms, args)
        if kind in ("sum", "max", *CONTRACTIONS):
            axes = self.inputs.axes(node)
            if kind in CONTRACTIONS and is_contraction(args[0].shape, args[1].shape, axes):
                a, b = (each.astype(np.float64) for each in args[:2])
                n = math.prod(max(a.shape[axis], b.shape[axis]) for axis in axes)
                return np.where(contracted(a, b, axes) == n, _PLUS, _FREE)
            terms = args[0] * args[1] if kind in CONTRACTIONS else args[0]
            return np.where((terms == 1).all(axis=axes, keepdims=True), _PLUS, _FREE)
        return np.full((1,) * args[0].ndim, kind in _POSITIVE, np.int8)

    def _of_function(self, node: Node, arg: Flags) -> Flags:
        of = node.function
        if of.sign == "argument":
            return arg
        if of.sign == "positive":
            return np.full((1,) * arg.ndim, _PLUS)
        # The sine of a nonzero number may have another sign than the number.
        return np.where(of.keeps_zeros & (self.forms[node.args[0]].centre == 0), arg, _FREE)
