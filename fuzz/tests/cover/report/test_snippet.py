"""A failing case as lines to paste into an issue: tensors of each dtype, of few elements and of many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz.core.base.case import Case
from fuzz.explain.explanation import Explanation
from fuzz.report.filing import snippet
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.told import NOTHING
from fuzz.tests.cover.findings.test_codec import FULL
from oracles.dtypes import FORMATS


def _made(case: Case, told: Explanation = NOTHING) -> dict[str, np.ndarray]:
    """Return what the lines of Python make."""
    names: dict[str, np.ndarray] = {}
    exec(snippet(told, case).partition("```python\n")[2].partition("```")[0], names)
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


def test_how_a_tensor_lies_is_said() -> None:
    assert "with strides [" in snippet(NOTHING, a_case("rms_norm", (), (2, 3)))


def test_of_many_rows_that_of_the_worst_element_is_enough() -> None:
    """The exact value follows from it alone."""
    case = a_case("rms_norm", ("weight",), (3, 64, 90), layout=dense)
    assert FULL.worst is not None
    told = replace(NOTHING, op="rms_norm", worst=replace(FULL.worst, output="y", index=(2, 7, 1)))
    text = snippet(told, case)
    assert "(here only the row of that element, from which follows what must come)" in text
    assert len(text.partition("```python\n")[2].partition("```")[0].splitlines()) <= 10
    made = _made(case, told)
    whole = np.frombuffer(case.inputs["x"].bits, "<f4").reshape(3, 64, 90)
    assert made["x"].tobytes() == whole[2:3, 7:8].tobytes()
    assert made["x"].shape == (1, 1, 90)
    assert made["weight"].tobytes() == case.inputs["weight"].bits


def test_one_long_row_is_whole_as_long_as_an_issue_takes_it_and_else_told_by_values_like_it() -> None:
    long, longer = (a_case("rms_norm", (), (1, n), layout=dense) for n in (3000, 30_000))
    assert _made(long)["x"].tobytes() == long.inputs["x"].bits
    text, made = snippet(NOTHING, longer), _made(longer)["x"]
    assert "# x only like the failing values, which the case file has: " in text
    assert len(text) < 1000
    assert (made.shape, made.dtype.str) == ((1, 30_000), "<f4")
    values = np.frombuffer(longer.inputs["x"].bits, "<f4")
    assert abs(made.std() / values.std() - 1) < 0.1
