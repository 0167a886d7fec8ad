"""Kinship: whether two failures by values have one cause. The values of one are changed to those of the other in steps,
and each step must fail: the threshold of one cause may be a surface, at each place of which a different rule would be
learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import quantise
from fuzz.explain.trial.trial import Trials
from oracles.dtypes import FORMATS, ITEMSIZE

_STEPS = 8
"""The number of steps between two values of an input. Chosen, not measured."""
_MOST = 4
"""The most inputs that are changed one after the other, since all orders are tried."""

_Bits = Mapping[str, NDArray[np.int64]]
"""The elements of each input, as integers in the order of the values."""


def are_kin(trials: Trials, one: Case, other: Case) -> bool:
    """Return whether two failing cases depend on the values of a common input, and all cases on a path of values
    between them fail. Failures that show with ordinary values are compared by other means."""
    first, last = _bits(one, like=other), _bits(other)
    if trials.family.law is not None or first is None or last is None:
        return False

    def fails(cases: Sequence[Case]) -> list[bool]:
        return [trials.holds(case, each) for case, each in zip(cases, trials.judge(cases), strict=True)]

    made = [_with(other, first)]
    made += [_with(other, {**bits, **ordinary}) for bits in (first, last) for ordinary in _ordinary(other, bits)]
    failed = fails(made)
    count = (len(made) - 1) // 2
    needed = [
        {name for place, name in enumerate(last) if not any(of[place * _KINDS : (place + 1) * _KINDS])}
        for of in (failed[1 : 1 + count], failed[1 + count :])
    ]
    return failed[0] and bool(needed[0] & needed[1]) and _is_reached(other, first, last, fails)


def _is_reached(frame: Case, first: _Bits, last: _Bits, fails: Callable[[Sequence[Case]], list[bool]]) -> bool:
    """Return whether the inputs can be changed one after the other, in steps, so that each step fails."""
    moved = [name for name in last if not np.array_equal(first[name], last[name])]
    if len(moved) > _MOST:
        return False
    seen, waiting = {frozenset[str]()}, [frozenset[str]()]
    while waiting:
        done = waiting.pop()
        if len(done) == len(moved):
            return True
        for name in moved:
            if name in done or done | {name} in seen:
                continue
            at = {each: last[each] if each in done else first[each] for each in last}
            if all(fails([_with(frame, {**at, name: bits}) for bits in _between(first[name], last[name])])):
                seen.add(done | {name})
                waiting.append(done | {name})
    return False


def _between(first: NDArray[np.int64], last: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield values in steps from `first` to `last`, ending with `last`."""
    for step in range(1, _STEPS):
        yield first + (last // _STEPS - first // _STEPS) * step
    yield last


_ORDINARY: Sequence[Callable[[int], NDArray[np.float64]]] = (np.ones, lambda size: 0.5 + np.arange(size) % 7 / 4)
_KINDS = len(_ORDINARY)
"""The number of kinds of ordinary values. If a failure shows with one of them, the input's values are not its cause."""


def _ordinary(frame: Case, bits: _Bits) -> Iterator[_Bits]:
    """Yield each input with each kind of ordinary values."""
    for name, values in bits.items():
        dtype = frame.inputs[name].dtype
        for made in _ORDINARY:
            yield {name: _ordered(quantise(made(values.size), dtype).tobytes(), dtype)}


def _bits(case: Case, like: Case | None = None) -> _Bits | None:
    """Return the elements of the floating-point inputs, repeated to the size that another case has; None if the cases
    have different inputs, or share memory."""
    like = like or case
    same = {name: each.dtype for name, each in case.inputs.items()} == {n: e.dtype for n, e in like.inputs.items()}
    if not same or not (case.apart and like.apart):
        return None
    found = {}
    for name, own in like.inputs.items():
        tensor, size = case.inputs[name], own.layout.size
        if tensor.dtype not in FORMATS or not tensor.layout.size:
            if tensor.bits != own.bits:
                return None
        elif size:
            found[name] = np.resize(_ordered(tensor.bits, tensor.dtype), size)
    return found


def _ordered(bits: bytes, dtype: str) -> NDArray[np.int64]:
    """Return the elements as integers in the order of their values; both zeros are 0."""
    size = ITEMSIZE[dtype]
    words = np.frombuffer(bits, f"<u{size}").astype(np.int64 if size < 8 else np.uint64)
    top = 1 << 8 * size - 1
    negative = words >= top
    sizes = (words - np.where(negative, words.dtype.type(top), words.dtype.type(0))).astype(np.int64)
    return np.where(negative, -sizes, sizes)


def _with(case: Case, bits: _Bits) -> Case:
    """Return the case with these elements."""
    inputs = dict(case.inputs)
    for name, values in bits.items():
        size = ITEMSIZE[inputs[name].dtype]
        words = np.abs(values).astype(f"<u{size}") + np.where(values < 0, 1 << 8 * size - 1, 0).astype(f"<u{size}")
        inputs[name] = replace(inputs[name], bits=words.astype(f"<u{size}").tobytes())
    return replace(case, inputs=inputs)
