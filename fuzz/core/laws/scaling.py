"""The law of scaling: multiplying by a power of two is exact, and passes through every rounding, inside the range.

An op says which inputs, parameters and outputs are scaled, and by which powers of s = 2^k. In rms_norm, with x times s
and eps times s^2, the squares, their mean and eps change with s^2, rstd with 1/s, and y stays the same. An estimate of
the reciprocal root keeps the law too, since s^2 is an even power of two. All this holds while nothing over- or
underflows on either side. The bounds are those of `laws/reach.py`, from the op's formula, and cautious: a law that is
applied where it does not hold accuses correct kernels. A kernel with an accumulator narrower than float32 must not
declare the law.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case, Output, Tensor
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.stream import Reals, Stream
from fuzz.core.laws.law import Law, Leeway, Outputs, has_elements
from fuzz.core.laws.reach import KnowsTheScaleError, Reaches, ValueRange, leaf, reaches
from oracles.dtypes import SINGLE, form
from oracles.enclosure import Mask
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import Node, Trace, trace
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import AXIS
from oracles.ops import OPS
from oracles.problem import Arrangement

_TRIED = (1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 9, -9, 13, -13, 18, -18, 24, -24)
"""The values of k that may be drawn. The largest are as many binades as float32 has bits of significand. So an absolute
constant in place of a relative one (an eps, a threshold) is lost on one side and counts on the other."""
_LEAST, _MOST = -126, 126
"""Exponents between which float32 neither underflows nor overflows, with a binade to spare at the top."""
_CANCELLED = 2.0**-100
"""A sum of float32 numbers below this may have had a term that underflowed."""


@dataclass(frozen=True)
class _Span:
    """The range of the values of an input, constant or parameter: 2^least <= |v| < 2^most for finite, nonzero ones."""

    power: int
    """The power of s by which the values are scaled."""
    least: int
    most: int
    zero: bool
    signed: bool

    def at(self, k: int) -> ValueRange:
        """Return the reach of the values with s = 2^k."""
        moved = self.power * k
        return leaf(self.power, self.least + moved, self.most + moved, zero=self.zero, signed=self.signed)

    def fits(self, dtype: str, k: int) -> bool:
        """Return whether with s = 2^k all values are normal numbers, since some kernels flush subnormals."""
        low, high, moved = form(dtype).emin, form(dtype).emax, self.power * k
        return low <= self.least + moved and self.most + moved <= high


def _span(values: Reals, power: int) -> _Span | None:
    """Return the span of values, or None if all finite values are zero."""
    magnitudes = np.abs(values)
    finite = magnitudes[(magnitudes > 0) & (magnitudes < math.inf)]
    if not finite.size:
        return None
    zero, signed = bool((magnitudes == 0).any()), bool((values < 0).any())
    return _Span(power, _exponent(finite.min()), _exponent(finite.max()) + 1, zero, signed)


@lru_cache(maxsize=1024)
def _span_of_one(value: float, power: int) -> _Span | None:
    """Return the span of a constant or a parameter. It is cached, since there are few."""
    return _span(np.array([value]), power)


def _exponent(value: float) -> int:
    """Return e with 2^e <= value < 2^(e + 1)."""
    return math.frexp(value)[1] - 1


def _values(tensor: Tensor) -> Reals:
    with np.errstate(invalid="ignore"):  # a signalling NaN may become a quiet one
        return from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)


@lru_cache(maxsize=64)
def _traced(op: Op, inputs: tuple[str, ...], params: tuple[str, ...]) -> Trace:
    return trace(op.formula, {name: op.operand(name).axes for name in inputs}, params)


@dataclass(frozen=True)
class _Scaled:
    """A case whose values are multiplied by powers of s."""

    case: Case
    op: Op
    formula: Trace
    known: dict[int, bool] = field(default_factory=dict)
    reached: dict[int, Reaches] = field(default_factory=dict)

    def powers(self, first: int = 0) -> Iterator[int]:
        """Yield every k of `_TRIED` for which the law holds, starting at index `first` and wrapping around."""
        if any(span is not None and span.power for span in self.spans.values()):
            with suppress(KnowsTheScaleError):
                yield from (k for k in (*_TRIED[first:], *_TRIED[:first]) if self._holds(0) and self._holds(k))

    def _holds(self, k: int) -> bool:
        """Return whether s = 2^k leaves all values in range. Raise KnowsTheScaleError."""
        if k not in self.known:
            self.known[k] = self._is_inside(k)
        return self.known[k]

    def _is_inside(self, k: int) -> bool:
        if not all(span.fits(dtype, k) for span, dtype in self._stored):
            return False
        found = self._reaches(k)
        return all(
            reach.low >= _LEAST and reach.high <= _MOST
            for reach in found.values()
            if reach is not None and reach.scaled
        )

    @lazy
    def spans(self) -> Mapping[Node, _Span | None]:
        """Return the spans of all leaves of the formula."""
        return {node: self._leaf(node) for node in self.formula.nodes if not node.args}

    def _leaf(self, node: Node) -> _Span | None:
        if node.kind == "tensor":
            return _span(_values(self.case.inputs[node.label]), self.op.scaling.get(node.label, 0))
        if node.kind == "parameter":
            return _span_of_one(float(self.case.params[node.label]), self.op.parameter(node.label).power)
        if node.kind == "constant":
            return _span_of_one(node.value, 0)
        return _Span(
            0,
            0,
            math.prod(self._arranged.sizes[dim] for dim in node.over).bit_length(),
            zero=node.kind == "position",
            signed=False,
        )

    def _reaches(self, k: int) -> Reaches:
        if k not in self.reached:
            leaves = {node: None if span is None else span.at(k) for node, span in self.spans.items()}
            self.reached[k] = reaches(self.formula, leaves, self._arranged.sizes)
        return self.reached[k]

    @lazy
    def _arranged(self) -> Arrangement:
        shapes = {name: tensor.layout.shape for name, tensor in self.case.inputs.items()}
        return Arrangement(self.op, shapes, int(self.case.params[AXIS]))

    @lazy
    def _stored(self) -> list[tuple[_Span, str]]:
        """Return the span and dtype of all scaled values in memory: inputs, and outputs from which other outputs are
        calculated, since kernels may first round these outputs to the dtype of a similar tensor. Raise
        KnowsTheScaleError."""
        stored = [(s, self.case.inputs[n.label].dtype) for n, s in self.spans.items() if n.kind == "tensor" and s]
        for name, reach in self._outputs().items():
            node, narrow = self.formula.outputs[name], self._narrow_dtypes(name)
            if reach is not None and reach.power and node.args and self.formula.uses[node] and narrow:
                span = _span(self._evaluated(node), reach.power)
                stored += [(span, dtype) for dtype in narrow if span is not None]
        return [(span, dtype) for span, dtype in stored if span.power]

    def _outputs(self) -> Mapping[str, ValueRange | None]:
        """Return the reach of every output, unscaled. Raise KnowsTheScaleError if the op states other powers."""
        found = self._reaches(0)
        outputs = {name: found[node] for name, node in self.formula.outputs.items()}
        for name, reach in outputs.items():
            if reach is not None and reach.power != self.op.scaling.get(name, 0):
                raise KnowsTheScaleError(f"{name} goes with s^{reach.power}, and not as its op says")
        return outputs

    def _narrow_dtypes(self, name: str) -> list[str]:
        """Return the dtypes with a smaller range than f32 that tensors of the output's shape and scaling have."""

        def what(other: str) -> tuple[tuple[str, ...], int]:
            return self.op.operand(other).axes, self.op.scaling.get(other, 0)

        dtypes = {tensor.dtype for other, tensor in self.case.tensors.items() if what(other) == what(name)}
        return sorted(dtype for dtype in dtypes if form(dtype).max < SINGLE.max / 2)

    def _evaluated(self, node: Node) -> Reals:
        """Return the values of a node. Raise KnowsTheScaleError if they depend on stacked tensors."""
        part = replace(self.formula, tensors={}, outputs={"": node}, locals={})
        names = {each.label for each in part.nodes if each.kind == "tensor"}
        arrays = {name: self._array(name) for name in names}
        part = replace(part, tensors={name: self.formula.tensors[name] for name in names})
        params = {name: float(value) for name, value in self.case.params.items()}
        found: Reals = evaluate(Inputs(part, arrays, params), Float64())[node]
        return found

    def _array(self, name: str) -> Reals:
        """Return an input with the dimensions that the formula gives it. Raise KnowsTheScaleError if it is stacked."""
        values = _values(self.case.inputs[name])
        if name in self.op.columns and values.ndim > 1:
            raise KnowsTheScaleError(f"{name} has rank {values.ndim}")
        return self._arranged.collapsed(name, values)


def _applies(case: Case) -> bool:
    return has_elements(case) and any(_of(case).powers())


def _power(case: Case, stream: Stream) -> int:
    return next(_of(case).powers(int(stream.words(1)[0]) % len(_TRIED)))


class _Same:
    """A key that is equal only for the same case object. The hash of a case is that of its bits, and would take time
    for every case."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def __hash__(self) -> int:
        return id(self.case)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.case is self.case


def _of(case: Case) -> _Scaled:
    return _of_same(_Same(case))


@lru_cache(maxsize=4)
def _of_same(same: _Same) -> _Scaled:
    case = same.case
    op = OPS[case.op]
    params = tuple(each.name for each in op.parameters if each.name in case.params)
    return _Scaled(case, op, _traced(op, tuple(case.inputs), params))


def _scaled(values: NDArray[np.generic], k: int) -> NDArray[np.generic]:
    """Return the values times 2^k. The result is exact if `_Scaled` allows this k."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return np.ldexp(values.astype(np.float64), k).astype(values.dtype)


def _at_another_scale(case: Case, stream: Stream) -> Case:
    op, k = OPS[case.op], _power(case, stream)

    def scaled(tensor: Tensor, power: int) -> Tensor:
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)
        return replace(tensor, bits=_scaled(values, power * k).tobytes())

    inputs = {name: scaled(case.inputs[name], power) for name, power in op.scaling.items() if name in case.inputs}
    powers = {each.name: each.power for each in op.parameters if each.power and each.name in case.params}
    params = {name: math.ldexp(float(case.params[name]), power * k) for name, power in powers.items()}
    return replace(case, inputs={**case.inputs, **inputs}, params={**case.params, **params})


def _expected(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    op, k = OPS[case.op], _power(case, stream)

    def scaled(name: str, output: Output) -> bytes:
        power = op.scaling.get(name, 0)
        values = from_bits(outputs[name], output.dtype, output.layout.shape)
        return _scaled(values, power * k).tobytes() if power else outputs[name]

    return {name: scaled(name, output) for name, output in case.outputs.items()}


def _leeway(case: Case, stream: Stream, outputs: Outputs) -> Leeway:
    """Return the elements that may be rounded in another way: scaled ones that are, or become, subnormal or out of
    range when stored."""
    op, k = OPS[case.op], _power(case, stream)
    return Leeway(
        elements={
            name: _unsure(from_bits(outputs[name], output.dtype, (-1,)), output.dtype, op.scaling[name] * k)
            for name, output in case.outputs.items()
            if op.scaling.get(name, 0)
        }
    )


def _unsure(values: NDArray[np.generic], dtype: str, k: int) -> Mask:
    """Return a mask of the elements that are not well inside the range of their dtype, before or after multiplying by
    2^k. NaNs are not among them, since they are NaNs on both sides."""
    with np.errstate(invalid="ignore"):
        here = np.abs(values.astype(np.float64))
    there = np.ldexp(here, k)
    low, high = max(2 * form(dtype).tiny, _CANCELLED), min(form(dtype).max, SINGLE.max) / 2
    return (np.minimum(here, there) < low) | (np.maximum(here, there) > high)


SCALING = Law(
    "scaling", "the input, and what goes with it, times a power of two, where nothing over- or underflows",
    _applies, _at_another_scale, _expected, _leeway, suits=lambda op: bool(op.scaling),
)  # fmt: skip
