"""Cases as a run sees them, and a kernel in a few lines of NumPy for which every law holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import numpy as np
import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import from_bits
from fuzz.tests.common.examples import searched
from oracles.dtypes import ITEMSIZE
from oracles.tests.common.whole import WHOLE

Model = Callable[[Case], Mapping[str, bytes]]


@pytest.fixture(scope="session")
def some_cases() -> list[Case]:
    """The first cases of a search: in the gate as many as give each law some that it applies to."""
    cases = filter(_is_plain, searched("rms_norm", 5, load(built_in()).kernels))
    return list(islice(cases, 800 if WHOLE else 500))


def _is_plain(case: Case) -> bool:
    """Only x and y, each with memory of its own or exactly in place, in a dtype that the models know."""
    dtypes = {name: tensor.dtype for name, tensor in case.inputs.items()}
    dtypes |= {name: output.dtype for name, output in case.outputs.items()}
    return case.apart and dtypes in ({"x": "f16", "y": "f16"}, {"x": "f32", "y": "f32"})


def honest(case: Case) -> Mapping[str, bytes]:
    """Each row on its own, summed in order in float32."""
    x, axis = case.inputs["x"], int(case.params["axis"])
    values = np.moveaxis(from_bits(x.bits, x.dtype, x.layout.shape).astype(np.float32), axis, -1)
    n = values.shape[-1]
    if values.size == 0:
        return {"y": b""}
    with np.errstate(all="ignore"):
        total = np.cumsum(values * values, axis=-1, dtype=np.float32)[..., -1:]
        rstd = np.float32(1) / np.sqrt(total / np.float32(n) + np.float32(case.params["eps"]))
        y = np.moveaxis((values * rstd).astype(from_bits(b"", x.dtype, (0,)).dtype), -1, axis)
    return {"y": np.ascontiguousarray(y).tobytes()}


def nudged(case: Case) -> Mapping[str, bytes]:
    """The honest outputs with the last bit of every element flipped."""
    words = np.frombuffer(honest(case)["y"], f"<u{ITEMSIZE[case.outputs['y'].dtype]}")
    return {"y": (words ^ words.dtype.type(1)).tobytes()}
