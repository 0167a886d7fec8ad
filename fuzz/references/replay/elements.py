"""Conditions on single elements: what is true of the inputs' elements, or of the place, wherever an output is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays
from fuzz.references.replay.oracle import ShownCause, wrong_in
from fuzz.references.replay.retrial import SEVERAL, TELLING, ReplayBench, ReplayRun, counts

_Elements = NDArray[Any]
_OF_ONE: Mapping[str, Callable[[_Elements], _Elements]] = {
    "{a} < 0": lambda a: a < 0,
    "{a} > 0": lambda a: a > 0,
    "{a} = 0": lambda a: a == 0,
    "{a} is NaN": lambda a: a != a,
    "{a} is infinite": lambda a: (a == np.inf) | (a == -np.inf),
    "{a} is the lowest integer": lambda a: a == np.iinfo(a.dtype).min if a.dtype.kind == "i" else a != a,
    "{a} is the largest integer": lambda a: a == np.iinfo(a.dtype).max if a.dtype.kind in "iu" else a != a,
    "{a} is no whole number": lambda a: (a != np.rint(a)) & (a == a),
}
_OF_TWO: Mapping[str, Callable[[_Elements, _Elements], _Elements]] = {
    "{a} < {b}": lambda a, b: a < b,
    "{a} > {b}": lambda a, b: a > b,
    "{a} = {b}": lambda a, b: a == b,
    "{a} and {b} have other signs": lambda a, b: (a < 0) != (b < 0),
    "{a} + {b} is no {dtype}": lambda a, b: _beyond(np.add, a, b),
    "{a} - {b} is no {dtype}": lambda a, b: _beyond(np.subtract, a, b),
    "{a} * {b} is no {dtype}": lambda a, b: _beyond(np.multiply, a, b),
}
"""What may be true of the elements of inputs at the place of an element of the output."""
_BLOCKS = (2, 4, 8, 16, 32, 64, 128)
_RESTS = 32
"""The most remainders of a block that are tried."""
_ALMOST = 0.999
"""The least share of elements that must be wrong for `wherever`; `only where` is said of fewer, as others may be right
by chance."""
_SURELY = 20.0
"""The least number of elements of failing cases that would be wrong beside the condition if it did not matter: by
chance all would lie within it once in e^20, and there are some 10^5 conditions."""
_MOST_ELEMENTS = 1 << 17
"""The most elements of outputs that are looked at together."""


def _beyond(of: Any, a: _Elements, b: _Elements) -> _Elements:
    if a.dtype.kind not in "iu" or a.dtype.itemsize > 4:
        return np.zeros(a.shape, bool)
    exact, ends = of(a.astype(np.int64), b.astype(np.int64)), np.iinfo(a.dtype)
    return np.asarray((exact < ends.min) | (exact > ends.max))


def _held(inputs: Arrays, shape: tuple[int, ...]) -> Iterator[tuple[str, _Elements]]:
    """Yield conditions of the table, and on places along axes, with the mask of the elements of which each is true."""
    for name, each in inputs.items():
        yield from ((words.format(a=name), holds(each)) for words, holds in _OF_ONE.items())
        for block in _BLOCKS if each.dtype.kind in "iu" else ():
            rests = each.astype(np.int64) % block
            yield from ((f"{name} mod {block} = {rest}", rests == rest) for rest in range(min(block, _RESTS)))
    for one, other in combinations(inputs, 2):
        if inputs[one].dtype == inputs[other].dtype:
            for words, both in _OF_TWO.items():
                said = words.format(a=one, b=other, dtype=str(inputs[one].dtype))
                yield said, both(inputs[one], inputs[other])
    for axis, (size, at) in enumerate(zip(shape, np.indices(shape), strict=True)):
        name = "the index" + (f" along axis {axis}" if len(shape) > 1 else "")
        yield f"{name} is the last one", at == size - 1
        yield f"{name} is the first one", at == 0
        for block in _BLOCKS:
            yield f"{name} >= {block}", at >= block
            yield f"{name} is behind the last whole block of {block}", at >= size - size % block
            yield from ((f"{name} mod {block} = {rest}", at % block == rest) for rest in range(min(block, _RESTS)))


def by_elements(bench: ReplayBench) -> ShownCause | None:
    """Return what is true of the elements of inputs, or of places, wherever elements of an output are wrong."""
    at = next((at for at, got in enumerate(bench.wrong[0].got) if _mask(bench.wrong[0], at).any()), None)
    masks, wrong, failing = dict[str, list[_Elements]](), list[_Elements](), list[_Elements]()
    sizes = dict[str, list[_Elements]]()
    count = 0
    for run in bench.runs if at is not None else ():
        assert at is not None
        mask = _mask(run, at)
        if count + mask.size > _MOST_ELEMENTS:
            continue
        count += mask.size
        inputs = dict[str, _Elements]()
        with suppress(ValueError):
            inputs = {name: np.broadcast_to(each, mask.shape) for name, each in run.case.arrays.items()}
        wrong.append(mask.reshape(-1))
        failing.append(np.full(mask.size, run.is_wrong))
        with np.errstate(all="ignore"):
            for words, holds in _held(inputs, mask.shape):
                masks.setdefault(words, []).append(holds.reshape(-1))
            for name, each in inputs.items():
                sizes.setdefault(f"|{name}|", []).append(np.abs(each.astype(np.float64)).reshape(-1))
    every = np.concatenate(wrong) if wrong else np.zeros(0, bool)
    if every.sum() < TELLING or (~every).sum() < TELLING or len(bench.wrong) < SEVERAL:
        return None
    found = {words: np.concatenate(each) for words, each in masks.items()}
    found = {words: each for words, each in found.items() if each.size == every.size and not each.all()}
    found = {words: each for words, each in found.items() if 2 * (every & each).sum() >= every.sum()}
    shares = {words: every.sum() / each.sum() for words, each in found.items() if not (every & ~each).any()}
    for a, b in combinations(found, 2):
        if not (every & ~(both := found[a] & found[b])).any():
            shares[f"{a} and {b}"] = every.sum() / both.sum()
            found[f"{a} and {b}"] = both
    if not shares:
        return _by_size(every, {name: np.concatenate(each) for name, each in sizes.items()}, counts(bench))
    best = max(shares, key=lambda each: (round(shares[each], 1), -each.count(" and "), shares[each]))
    beside = np.concatenate(failing)  # cases that pass are no evidence for a condition on single elements
    if every[beside].mean() * (beside & ~found[best]).sum() < _SURELY:
        return None
    only = "wherever" if shares[best] > _ALMOST else "only where"
    said = f"{int(every.sum()):,} of {int(found[best].sum()):,} such elements are wrong, and no other of {every.size:,}"
    return ShownCause("elements", f"wrong values {only} {best}", f"{said}, in {counts(bench)}")


def _by_size(wrong: _Elements, sizes: Arrays, counts: str) -> ShownCause | None:
    """Return the magnitude of an input's elements from which on elements of the output are wrong."""
    for name, each in sizes.items():
        if each.size == wrong.size:
            least, most = each[wrong].min(), each[~wrong & (each == each)].max()
            if most < least:
                said = f"{int(wrong.sum()):,} elements are wrong, and right ones reach {most:.6g}, in {counts}"
                return ShownCause("elements", f"wrong values from {name} = {least:.6g} on", said)
    return None


def _mask(run: ReplayRun, at: int) -> NDArray[np.bool_]:
    """Return which elements of an output are wrong. If an equation judges it as a whole, no element is."""
    one, got = run.wanted[at], run.got[at]
    return np.zeros(got.shape, bool) if one.equation is not None else wrong_in(one, got, run.case.dtype)
