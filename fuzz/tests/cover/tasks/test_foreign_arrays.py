"""A function of arrays that NumPy knows by DLPack alone is checked as any other."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import fuzz
from fuzz.tasks.check.function import meant_by, of_numpy
from fuzz.tests.common.foreign_array import Foreign
from fuzz.tests.common.told import fails

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
    more: Any = {"op": "softmax", "arrays": Foreign, "capabilities": fuzz.Capabilities(empty=False), "seed": 3}
    fuzz.check(normalised, max_cases=4, **more)
    with fails():
        fuzz.check(halved, max_cases=4, **more)


def _by_numpy(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _inside(x: Any) -> Any:
    import numpy

    return numpy.negative(x)


def _by_methods(x: Any) -> Any:
    return (x.astype("f8") * 2).astype("f4")


def _back(x: Any) -> Any:
    return x.new_tensor(_by_numpy(x.numpy()))


def _of_types(x: Any) -> Any:
    return x.astype(ml_dtypes.float8_e5m2)


class _Called:
    def __call__(self, x: Any) -> Any:
        return _by_numpy(x)


@pytest.mark.parametrize(
    ("kernel", "arrays"),
    [
        (_by_numpy, "numpy"), (lambda x: _by_numpy(x), "numpy"), (_inside, "numpy"), (_by_methods, "numpy"),
        (_of_types, "numpy"),
        (partial(_by_numpy), "numpy"), (_Called(), "numpy"), (_back, "torch"), (lambda x: x + x, "torch"),
        (lambda x: torch.from_numpy(_by_numpy(x.numpy())), "torch"), (torch.nn.Softmax(-1), "torch"),
    ],
)  # fmt: skip
def test_whose_arrays_a_function_takes_is_in_its_code(kernel: Any, arrays: str) -> None:
    assert meant_by(kernel) == arrays


def test_a_function_in_numpy_is_given_arrays_of_numpy_which_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    fuzz.check(_by_numpy, reference=lambda x: torch.softmax(x, -1), max_cases=8, seed=1)
    told = " ".join(capsys.readouterr().err.split())
    assert "the kernel is given arrays of NumPy, which it calls: arrays='torch' gives it tensors" in told
    with pytest.raises(fuzz.CheckFailed, match="crashes"):
        fuzz.check(_by_numpy, reference=lambda x: torch.softmax(x, -1), arrays="torch", max_cases=8, seed=1)
