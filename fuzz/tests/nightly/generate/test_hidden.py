"""Faults that need two things at once, a special value and an extent or a parameter and a stride, show in time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

from fuzz.core.base.case import Case, Layout
from fuzz.core.base.dtypes import from_bits
from fuzz.core.generate.search import Search, batches

Shows = Callable[[Case], Any]
"""Whether a fault shows in a case."""
_MOST, _SEEDS = 4000, 3


def _layout(case: Case, name: str = "x") -> Layout:
    return case.inputs[name].layout


def _n(case: Case) -> int:
    return _layout(case).shape[-1]


def _step(case: Case) -> int:
    """Return the stride of rows of x, or 1 for short ones."""
    return _layout(case).strides[-1] if _n(case) > 1 else 1


def _values(case: Case, name: str = "x") -> Any:
    tensor = case.inputs[name]
    return from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)


def _each_transposed(layout: Layout) -> bool:
    if len(layout.shape) < 3 or min(layout.shape[-3:]) < 2:
        return False
    between, rows, step = layout.strides[-3:]
    return rows == 1 and step >= layout.shape[-2] and between >= layout.shape[-1] * layout.shape[-2]


def _swapped(layout: Layout) -> bool:
    *outer, row = [stride for size, stride in zip(layout.shape, layout.strides, strict=True) if size > 1] or [0]
    return row == 1 and min(outer, default=0) > 0 and outer != sorted(outer, reverse=True)


def _is_subnormal(values: Any) -> bool:
    return bool((values != 0).any() and (np.abs(values) < 2.0**-126).all())


FAULTS: Mapping[str, Mapping[str, Shows]] = {
    "softmax": {
        "NaN, rows of 31 mod 64": lambda case: _n(case) % 64 == 31 and np.isnan(_values(case)).any(),
        "transposed matrices, rows from 65": lambda case: _n(case) >= 65 and _each_transposed(_layout(case)),
        "swapped axes, rows from 257": lambda case: _n(case) >= 257 and _swapped(_layout(case)),
        "minus infinity, step 2 or 3": lambda case: _step(case) in (2, 3) and np.isneginf(_values(case)).all(-1).any(),
    },
    "rms_norm": {
        "eps 0, step 2 or 3": lambda case: case.params.get("eps") == 0 and _step(case) in (2, 3),
        "eps 100, reversed": lambda case: case.params.get("eps") == 100 and _step(case) < 0,
        "offset -1, transposed": lambda case: case.params.get("weight_offset") == -1 and _step(case) > 3,
        "zero row, rows from 4096": lambda case: _n(case) >= 4096 and (_values(case) == 0).all(-1).any(),
        "eps below 1e-7, transposed matrices": lambda case: (
            case.params.get("eps", 1) < 1e-7 and _each_transposed(_layout(case))
        ),
    },
    "matmul": {
        "infinity, one row": lambda case: _layout(case, "a").shape[-2] == 1 and np.isinf(_values(case, "b")).any(),
        "relu, transposed matrices": lambda case: case.params.get("relu") == 1 and _each_transposed(_layout(case, "b")),
        "subnormal, k of 63 mod 64": lambda case: (
            _layout(case, "a").shape[-1] % 64 == 63 and _is_subnormal(_values(case, "a"))
        ),
    },
}


def firsts(op: str, seed: int, most: int = _MOST) -> Mapping[str, int]:
    """Return the number of the first case in which each fault shows, for those that show."""
    found, faults = dict[str, int](), FAULTS[op]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NaN of 16 bits
        for number, made in enumerate(islice(chain.from_iterable(batches(Search(op, seed))), most), 1):
            if made.case.origin.labels:
                found |= {each: number for each in faults.keys() - found.keys() if faults[each](made.case)}
            if len(found) == len(faults):
                break
    return found


@pytest.mark.parametrize("op", FAULTS)
def test_faults_that_need_two_things_show(op: str) -> None:
    """Before heads were laid beside tokens and matrices transposed one by one, three of the twelve never showed."""
    shown = [firsts(op, seed) for seed in range(1, _SEEDS + 1)]
    assert {fault for each in shown for fault in each} == FAULTS[op].keys()
    assert sum(map(len, shown)) >= _SEEDS * len(FAULTS[op]) - 2
