"""A function of arrays that NumPy knows by DLPack alone is checked as any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuzz
from fuzz.tests.common.foreign_array import Foreign
from fuzz.uses.check.foreign_arrays import of_numpy

pytestmark = pytest.mark.usefixtures("quick_checks")


def doubled(x: Foreign) -> Foreign:
    assert type(x) is Foreign
    return Foreign(x.values + x.values)


def test_what_is_returned_is_read_by_dlpack() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for found in (of_numpy(doubled, Foreign)(x=x), of_numpy(lambda x: {"y": doubled(x)}, Foreign)(x)["y"]):
        assert type(found) is np.ndarray
        assert np.array_equal(found, 2 * x)


def normalised(x: Foreign) -> Foreign:
    e = np.exp(x.values - x.values.max(-1, keepdims=True))
    return Foreign(e / e.sum(-1, keepdims=True))


def halved(x: Foreign) -> Foreign:
    return Foreign(normalised(x).values / np.float32(2.0))


def test_such_a_function_is_right_or_found_wrong() -> None:
    more: Any = {"op": "softmax", "arrays": Foreign, "capabilities": fuzz.Capabilities(empty=False), "seed": 1}
    fuzz.check(normalised, max_cases=8, **more)
    with pytest.raises(fuzz.CheckFailed, match="wrong values"):
        fuzz.check(halved, max_cases=8, **more)
