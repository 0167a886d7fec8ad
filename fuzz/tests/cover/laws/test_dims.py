"""Laws of an op that is not a row op: those of rows say nothing of it, the others hold for a correct kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.base.case import Case, Tensor
from fuzz.base.dtypes import from_bits, quantise
from fuzz.generate.search import Search, batches
from fuzz.laws.law import LawCheck, first_difference
from fuzz.laws.registry import LAWS
from oracles.op import Op
from oracles.operand import Flip
from oracles.tests.common.dims import PRODUCT
from oracles.tests.common.judged import known

LINEAR = replace(PRODUCT, flips=(Flip(("a",), ("c",), zeros=True),), scaling={"a": 1, "c": 1})
_OF_ROWS = ("row_permutation", "batch_subset", "batch_append")
_HELD = ("scaling", "sign_flip", "layout", "surroundings", "alignment")


@pytest.fixture(autouse=True)
def _known() -> Iterator[Op]:
    with known(LINEAR):
        yield LINEAR


def _values(tensor: Tensor) -> NDArray[Any]:
    return from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float32)


def product(case: Case) -> Mapping[str, bytes]:
    """Sums in order, each step rounded to float32."""
    a, b = map(_values, case.inputs.values())
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    with np.errstate(all="ignore"):
        for at in range(a.shape[-1]):
            total = total + a[..., at, None] * b[..., at, None, :]
        return {"c": quantise(total.astype(np.float64), case.outputs["c"].dtype).tobytes()}


def test_laws_of_rows_say_nothing_and_the_others_hold() -> None:
    compared = dict.fromkeys(_HELD, 0)
    for batch in islice(batches(Search(LINEAR.name, 2)), 8):
        for case in (made.case for made in batch if made.case.elements < 4096):
            assert not any(LAWS[law].applies(case) for law in _OF_ROWS)
            if not case.apart or "f64" in case.dtypes or 0 in case.outputs["c"].layout.shape:
                continue
            outputs = product(case)
            for name in (name for name in _HELD if LAWS[name].applies(case)):
                check = LawCheck(LAWS[name], 7)
                twin = check.twin(case)
                expected, leeway = check.expected(case, outputs), check.leeway(case, outputs)
                assert first_difference(twin.outputs, expected, product(twin), leeway) is None, (name, case)
                compared[name] += 1
    assert all(compared.values()), compared
