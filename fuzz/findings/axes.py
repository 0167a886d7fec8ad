"""The axes on which a kernel can hide that it is wrong: what it may look at, and do something else for. One table has
them all. For each, a session counts which values its judged cases had, so that a ruling says what was never tried."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import CACHE_LINE, SPARE, THREADS, Case, Tensor
from fuzz.core.base.dtypes import numbers as numbers_of
from fuzz.core.base.probe import AUTOGRAD, MODE, PAUSE, PROCESS, gradients_of, probe_of
from oracles.dtypes import FORMATS, ITEMSIZE
from oracles.ops import OPS

OTHER_MODE = "in the other one"
"""The mode of a case whose module is called in the mode that is not its own; who judges modules says its own."""
_NONE, _MOST, _SEVERAL = "0", 1 << 20, 7
_SPECIAL: Mapping[str, Callable[[NDArray[Any]], Any]] = {
    "NaN": np.isnan, "infinity": np.isinf, "zero": lambda x: (x == 0) & ~np.signbit(x),
    "negative zero": lambda x: (x == 0) & np.signbit(x),
}  # fmt: skip


class CaseView:
    """What axes look at in a case."""

    def __init__(self, case: Case) -> None:
        own = {name: each for name, each in case.inputs.items() if name != SPARE}  # no kernel gets that one
        self.case, self.op = replace(case, inputs=own) if len(own) < len(case.inputs) else case, OPS[case.op]
        self.main = next(iter(self.case.inputs.values()))

    @cached_property
    def numbers(self) -> dict[str, NDArray[Any]]:
        """The values of inputs of floats, or of all where none has floats; of a large case the first ones."""
        found = {name: each for name, each in self.case.inputs.items() if each.dtype in FORMATS} or self.case.inputs
        return {name: _values(each) for name, each in found.items()}

    @cached_property
    def first(self) -> NDArray[Any]:
        """The first row with several elements of the first input of floats; no elements if there is none."""
        value = next(iter(self.numbers.values()), np.zeros(0))
        return value.reshape(-1, value.shape[-1])[0] if value.size and value.ndim else np.zeros(0)

    @property
    def sizes(self) -> list[float]:
        return [_largest(each) for each in self.numbers.values()]


def _values(tensor: Tensor) -> NDArray[Any]:
    shape = tensor.layout.shape if tensor.layout.size <= _MOST else (-1,)
    found = numbers_of(tensor.bits[: _MOST * ITEMSIZE[tensor.dtype]], tensor.dtype, shape)
    return found.astype(np.float64)


def _largest(values: NDArray[Any]) -> float:
    """Return the largest finite magnitude; 0 if there is none."""
    size = np.abs(values)
    return float(np.max(size, where=np.isfinite(size), initial=0.0))


def _binade(value: float) -> str:
    """Return the power of two at or below a number."""
    return f"2^{math.frexp(value)[1] - 1}" if value else _NONE


def _apart(sizes: list[float]) -> Iterator[str]:
    """Yield how far the magnitudes of several things lie apart."""
    some = [each for each in sizes if each]
    if len(some) > 1:
        yield _binade(max(some) / min(some)) if max(some) / min(some) < math.inf else "2^1024"


def _of_rows(view: CaseView) -> Iterator[str]:
    value = next(iter(view.numbers.values()), np.zeros(0))
    if value.ndim > 1 and value.size:
        yield from _apart([_largest(row) for row in value.reshape(-1, value.shape[-1])[: 4 * _SEVERAL]])


def _extents(view: CaseView) -> Iterator[str]:
    for name, each in view.case.inputs.items():
        axes, shape = view.op.operand(name).axes, each.layout.shape
        named = zip(reversed(axes), reversed(shape), strict=False)
        yield from (f"{dim}={_class(size)}" for dim, size in named if dim in view.op.named)


def _class(size: int) -> str:
    """Return a small number itself, and else the power of two at or below it."""
    return str(size) if size <= _SEVERAL else f"2^{size.bit_length() - 1}"


def _multiple(view: CaseView) -> int:
    size = (view.main.layout.shape or (1,))[-1]
    return min(size & -size, 128)


def _strides(view: CaseView) -> Iterator[str]:
    for each in view.case.inputs.values():
        layout = each.layout
        dense = layout.extent == layout.size
        yield (
            "contiguous"
            if dense and list(layout.strides) == sorted(layout.strides, reverse=True)
            else ("transposed" if dense else "stride of 0" if 0 in layout.strides else "with gaps")
        )


def _aliasing(view: CaseView) -> Iterator[str]:
    yield from [f"{output} {how} {source}" for output, source, how in view.case.meetings()] or ["apart"]


def _repeats(view: CaseView) -> Iterator[str]:
    row = view.first
    if row.size > 1:
        different = len(np.unique(row))
        yield "all equal" if different == 1 else "all different" if different == row.size else "some equal"


def _order(view: CaseView) -> Iterator[str]:
    row = view.first
    if row.size > 2:
        with np.errstate(invalid="ignore"):
            steps = np.diff(row)
        yield "ascending" if (steps >= 0).all() else "descending" if (steps <= 0).all() else "neither"


def _corner(view: CaseView) -> Iterator[str]:
    row = np.abs(view.first)
    if row.size > 2 and np.isfinite(row).all():
        place = int(np.argmax(row))
        yield "largest first" if place == 0 else "largest last" if place == row.size - 1 else "largest inside"


def _special(view: CaseView) -> Iterator[str]:
    held = {name for name, holds in _SPECIAL.items() if any(holds(each).any() for each in view.numbers.values())}
    yield from held or {"none"}


def _signs(view: CaseView) -> Iterator[str]:
    row = view.first
    if row.size > 1:
        yield "no negative" if (row >= 0).all() else "no positive" if (row <= 0).all() else "both"


def _alignment(view: CaseView) -> Iterator[str]:
    for each in view.case.tensors.values():
        address = each.layout.alignment(ITEMSIZE[each.dtype]) % CACHE_LINE
        yield str(address & -address) if address else str(CACHE_LINE)


def _one(value: Callable[[CaseView], object]) -> Callable[[CaseView], Iterator[str]]:
    return lambda view: iter([str(value(view))])


AXES: Mapping[str, Callable[[CaseView], Iterator[str]]] = {
    "magnitude of all inputs": _one(lambda view: _binade(max(view.sizes, default=0.0))),
    "magnitude of one input beside others": lambda view: _apart(view.sizes),
    "magnitude of one row beside others": _of_rows,
    "extents": _extents,
    "elements": _one(lambda view: _class(view.main.layout.size)),
    "rows are multiples of": _one(_multiple),
    "rows": _one(lambda view: _class(math.prod(view.main.layout.shape[:-1]))),
    "dimensions": _one(lambda view: len(view.main.layout.shape)),
    "strides": _strides,
    "alignment in bytes": _alignment,
    "aliasing": _aliasing,
    "how it is called": _one(lambda view: probe_of(view.case) or "as usual"),
    "threads": _one(lambda view: view.case.params.get(THREADS, "as the process has them")),
    "dtypes": _one(lambda view: " ".join(dict.fromkeys(each.dtype for each in view.case.tensors.values()))),
    "values that repeat": _repeats,
    "order of values": _order,
    "special values": _special,
    "place of the largest value": _corner,
    "signs": _signs,
    "time": _one(lambda view: "after a pause" if probe_of(view.case) == PAUSE else "at once"),
    "environment and process": _one(lambda view: "as a user's" if probe_of(view.case) == PROCESS else "the judge's"),
    MODE: lambda view: iter([OTHER_MODE] if probe_of(view.case) == MODE else []),
    "autograd": _one(lambda view: gradients_of(view.case) if probe_of(view.case) == AUTOGRAD else "no gradients"),
}
"""All axes: what a kernel can depend on, and what yields the values of a case. Identity and reuse of addresses, the
stack, and the number of calls at one address are in how it is called: see the probes."""


def values_of(case: Case) -> Mapping[str, set[str]]:
    """Return the values of a case on each axis; axes that say nothing about it are left out."""
    view = CaseView(case)
    found = {name: {*values(view)} for name, values in AXES.items()}
    return {name: values for name, values in found.items() if values}


def told(seen: Iterable[Mapping[str, Mapping[str, int]]]) -> Mapping[str, Mapping[str, int]]:
    """Return all axes with the values that ran and how often, in order; an axis that nothing varied has none."""
    found = {name: Counter[str]() for name in AXES}
    for each in seen:
        for name, values in each.items():
            found[name].update(values)
    return {name: dict(sorted(values.items(), key=_place)) for name, values in found.items()}


def _place(item: tuple[str, int]) -> tuple[str, float, str]:
    """Order powers of two and numbers by their size, and words by the alphabet."""
    word, _, number = item[0].rpartition("=")
    power = number.startswith("2^")
    plain = number.removeprefix("2^")
    if not plain.lstrip("-").isdigit():
        return item[0], 0.0, ""
    return word, float(plain) if power else math.log2(int(plain)) if int(plain) > 0 else -math.inf, ""


def text_of(axis: str, values: Mapping[str, int]) -> str:
    """Return a line that says which values of an axis ran, such as 'axis rows: 1, 2 to 8, 2^10'."""
    return f"axis {axis}: {', '.join(_ranges([*values])) or 'not varied'}"


def _ranges(values: list[str]) -> Iterator[str]:
    """Yield values, and powers of two that follow each other as one range."""
    start = 0
    while start < len(values):
        end = start
        while end + 1 < len(values) and _follows(values[end], values[end + 1]):
            end += 1
        yield values[start] if end == start else f"{values[start]} to {values[end]}"
        start = end + 1


def _follows(one: str, other: str) -> bool:
    (word, _, a), (same, _, b) = one.rpartition("^"), other.rpartition("^")
    return bool(word) and word == same and int(b) == int(a) + 1
