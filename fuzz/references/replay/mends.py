"""Mends: changes of an input with which all failing cases pass, so that what was changed is seen to matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.text import counted
from fuzz.references.replay.cases import ReplayCase
from fuzz.references.replay.oracle import ShownCause
from fuzz.references.replay.recipe import rounded
from fuzz.references.replay.retrial import SEVERAL, ReplayBench, ReplayRun, with_values


@dataclass(frozen=True)
class Mend:
    """A change of an input by which what a kernel may not bear disappears."""

    words: str
    """What the input has, after its name."""
    change: Callable[[NDArray[Any]], NDArray[Any]]
    spoil: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    """For a change of nearly all elements: the function that gives ordinary matrices what was taken away. They must
    fail, and pass with the change, so that this alone, and nothing else that was changed, is seen to matter."""


def _by_pivots(a: NDArray[Any]) -> NDArray[Any]:
    """Return square matrices with their rows in the order in which elimination chooses them."""
    import torch

    is_square = a.ndim > 1 and a.shape[-1] == a.shape[-2] > 1
    return np.swapaxes(torch.linalg.lu(torch.from_numpy(a.copy()))[0].numpy(), -1, -2) @ a if is_square else a


def _small_pivot(a: NDArray[Any]) -> NDArray[Any]:
    found = a.copy()
    found[..., :1, :1] *= 2.0**-20
    return found


def _of_condition(least: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a function that gives the first columns of matrices singular values from `least` to 1, and makes those
    that they cannot be independent of small."""

    def change(a: NDArray[Any]) -> NDArray[Any]:
        if a.ndim < 2 or not a.size:
            return a
        k = min(a.shape[-2:])
        u, parts, rows = np.linalg.svd(a[..., :k], full_matrices=False)
        rest = a[..., k:] / (np.abs(a[..., k:]).sum((-1, -2), keepdims=True) + 2.0**-100)
        return np.concatenate([(u * np.geomspace(1.0, least, parts.shape[-1])) @ rows, rest], -1)

    return change


def _scaled(a: NDArray[Any]) -> NDArray[Any]:
    most = float(np.abs(a).max(initial=0.0))
    power = math.floor(math.log2(most)) if 0 < most < math.inf else 0
    return a * 2.0**-power if abs(power) > _FAR else a


_FAR = 16
"""The power of two beyond which numbers are called large or small."""


def _of(kinds: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a change of arrays whose dtype is of these kinds."""
    return lambda a: change(a).astype(a.dtype) if a.dtype.kind in kinds else a


_MENDS = (
    Mend("has a NaN", _of("f", lambda a: np.where(np.isnan(a), 1.0, a))),
    Mend("has an infinity", _of("f", lambda a: np.where(np.isinf(a), np.sign(a), a))),
    Mend("has {ends.min}, its lowest integer,", _of("i", lambda a: np.maximum(a, np.iinfo(a.dtype).min + 1))),
    Mend("has {ends.max}, its largest integer,", _of("iu", lambda a: np.minimum(a, np.iinfo(a.dtype).max - 1))),
    Mend("has a 0", _of("iuf", lambda a: np.where(a == 0, 1, a))),
    Mend("has a negative number", _of("i", lambda a: np.where(a < 0, ~a, a))),
    Mend("has a negative number", _of("f", np.abs)),
    Mend("has numbers of large or small magnitude", _of("f", _scaled)),
    Mend("needs an exchange of rows", _of("f", _by_pivots), _small_pivot),
    Mend("is not well-conditioned", _of("f", _of_condition(0.5)), _of_condition(2.0**-16)),
)  # fmt: skip
"""The changes, of which the first that mends all is told."""
_MENDED = 12
"""The most failing cases that are tried: a change must mend all of them."""


def by_mending(bench: ReplayBench) -> ShownCause | None:
    """Return what an input has in all failing cases, if they pass without it."""
    wrong = bench.wrong[:: -(-len(bench.wrong) // _MENDED)]  # of all sizes
    for each in _MENDS if len(wrong) >= SEVERAL else ():
        told = [name for name in wrong[0].case.arrays if _mends(bench, wrong, name, each)]
        if told:
            dtypes = {name: wrong[0].case.arrays[name].dtype for name in told}
            ends = {name: np.iinfo(of) if of.kind in "iu" else None for name, of in dtypes.items()}
            words = " and ".join(f"{name} {each.words.format(ends=ends[name])}" for name in told).rstrip(",")
            cases = counted(len(wrong), "failing case passes", "failing cases pass")
            without = f"without that in {' or '.join(told)}, {cases}"
            return ShownCause("mended", f"wrong values only where {words}", without)
    return None


def _mends(bench: ReplayBench, wrong: Sequence[ReplayRun], name: str, mend: Mend) -> bool:
    cases, ordinary, spoilt = list[ReplayCase](), list[ReplayCase](), list[ReplayCase]()
    for number, run in enumerate(wrong):
        own = run.case.arrays[name]
        made = _rounded(mend.change(own), run.case.dtype)
        if np.array_equal(made, own, equal_nan=True):
            return False
        cases.append(with_values(run.case, name, made))
        if mend.spoil is not None and min(own.shape[-2:]) > 1:
            plain = {each: np.random.default_rng(number).normal(size=array.shape) for each, array in
                     run.case.arrays.items() if array.dtype.kind == "f"}  # fmt: skip
            plain = {each: _rounded(array, run.case.dtype) for each, array in plain.items()}
            of_them = replace(run.case, arrays={**run.case.arrays, **plain})
            for some, change in ((ordinary, mend.change), (spoilt, lambda a: mend.spoil(mend.change(a)))):
                some.append(with_values(of_them, name, _rounded(change(plain[name]), run.case.dtype)))
    if any(each is None or each.is_wrong for each in bench.ran([*cases, *ordinary])):
        return False
    fails = [each.is_wrong for each in bench.ran(spoilt) if each is not None]
    return mend.spoil is None or (len(fails) >= SEVERAL and sum(fails) >= _SPOILT * len(fails))


_SPOILT = 0.75
"""The least share of cases that fail again once what was mended is brought back."""


def _rounded(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    return rounded(values, dtype).astype(np.float64) if values.dtype.kind == "f" else values
