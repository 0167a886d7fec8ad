"""A failing case as lines to paste into an issue: tensors of each dtype, of few elements and of many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz.base.case import Case
from fuzz.base.errors import UsageError
from fuzz.report.snippet import snippet
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.told import NOTHING
from oracles.dtypes import FORMATS


def _made(case: Case) -> dict[str, np.ndarray]:
    """Return what the lines of Python make."""
    names: dict[str, np.ndarray] = {}
    exec(snippet(NOTHING, case).partition("```python\n")[2].partition("```")[0], names)
    return names


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("grid", [(1, 1), (2, 5), (3, 37)])
def test_the_lines_make_each_input_bit_for_bit(dtype: str, grid: tuple[int, ...]) -> None:
    case = a_case("rms_norm", ("weight",), grid, dtype=dtype, layout=dense)
    made = _made(case)
    for name, tensor in case.inputs.items():
        assert (made[name].tobytes(), made[name].shape) == (tensor.bits, tensor.layout.shape)


def test_many_equal_elements_take_a_few_words() -> None:
    case = a_case("rms_norm", (), (64, 64), layout=dense)
    case = replace(case, inputs={"x": replace(case.inputs["x"], bits=bytes(4 * 64 * 64))})
    assert len(snippet(NOTHING, case)) < 1000
    assert (_made(case)["x"] == 0).all()


def test_how_a_tensor_lies_is_said_and_what_nobody_pastes_is_refused() -> None:
    assert "with strides [" in snippet(NOTHING, a_case("rms_norm", (), (2, 3)))
    with pytest.raises(UsageError, match="--snippet: x is too large to paste: send the case file"):
        snippet(NOTHING, a_case("rms_norm", (), (64, 64), layout=dense))
