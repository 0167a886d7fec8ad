"""Node tests of ONNX's kind, made by hand: right outputs are right, planted faults are seen, others say why not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fuzz.quality.__main__ import app
from fuzz.quality.onnx_nodes import verb
from fuzz.quality.onnx_nodes.cases import EXACT, NodeAnswer, NodeCase
from fuzz.quality.onnx_nodes.conversions import stored
from fuzz.quality.onnx_nodes.judging import all_answers, answer
from fuzz.quality.onnx_nodes.verb import deviations, known, new_deviations, reasons, shares, tolerances
from fuzz.tasks.comparison import FORMULA, REPLAY, RIGHT, WRONG
from fuzz.tests.conftest import Cli

X = np.array([[0.5, -1.25, 3.0], [2.0, 0.0, -0.75]], np.float32)


def softmax(x: Any) -> Any:
    """The softmax of each row, in float64."""
    found = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


def a_case(op: str, inputs: list[Any], output: Any, **attributes: Any) -> NodeCase:
    """A test of one node with one output."""
    return NodeCase(f"test_{op.lower()}", op, attributes, inputs, {0: np.asarray(output)}, others=("expanded",))


def test_an_output_that_no_tolerance_of_the_suite_refuses_is_wrong() -> None:
    right = softmax(X).astype(np.float32)
    case = a_case("Softmax", [X], right, axis=-1)
    found = answer(case)
    assert (found.by, found.result, found.said) == (FORMULA, RIGHT, "")
    assert found.wider is not None
    assert found.wider > 100
    typed = np.round(right, 4)
    assert np.allclose(typed, right, case.rtol, case.atol)
    wrong = answer(replace(case, outputs={0: typed}))
    assert (wrong.by, wrong.result) == (FORMULA, WRONG)
    assert "must be" in wrong.said


def test_moves_and_integers_are_exact() -> None:
    case = a_case("Concat", [X, X], np.concatenate([X, X]), axis=0)
    assert (answer(case).by, answer(case).result) == (EXACT, RIGHT)
    moved = case.outputs[0].copy()
    moved[3, 1] = np.nextafter(moved[3, 1], 1, dtype=np.float32)
    found = answer(replace(case, outputs={0: moved}))
    assert found.result == WRONG
    assert found.said.startswith("output 0[3, 1] = ")
    numbers = np.array([200, 100], np.uint8)
    assert answer(a_case("Add", [numbers, numbers], numbers + numbers)).result == RIGHT
    assert answer(a_case("Transpose", [X], X)).said == "output 0: shape [2, 3], must be [3, 2]"


def test_steps_of_16_bits_may_round_but_a_sum_may_not_be_kept_in_them() -> None:
    x = np.ones((1, 4096), np.float16)
    case = replace(a_case("ReduceSum", [x, np.array([1])], np.array([2048], np.float16), keepdims=0), others=())
    assert answer(case).result == WRONG
    assert answer(replace(case, outputs={0: np.array([4096], np.float16)})).result == RIGHT


def test_a_loop_is_replayed() -> None:
    rng = np.random.default_rng(1)
    x, w, r = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 1, 3), (1, 4, 3), (1, 4, 4)))
    h = np.zeros((1, 4))
    for row in x.astype(np.float64):
        h = np.tanh(row @ w[0].T + h @ r[0].T)
    case = replace(a_case("RNN", [x, w, r], h, hidden_size=4), outputs={1: h[None].astype(np.float32)})
    assert (answer(case).by, answer(case).result) == (REPLAY, RIGHT)
    assert answer(replace(case, outputs={1: (h[None] * 1.0001).astype(np.float32)})).result == WRONG


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "bfloat16", "float8_e4m3fnuz"])
def test_conversions_round_to_nearest_even(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    values = np.random.default_rng(2).normal(size=500) * 2
    np.testing.assert_array_equal(stored(values, dtype, saturate=0), values.astype(dtype).astype(np.float64))
    assert stored(np.array([1e6]), dtype)[0] == (
        stored(np.array([1e6]), np.dtype(ml_dtypes.bfloat16))[0]
        if name == "bfloat16"
        else float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    )


def test_what_is_not_judged_says_why() -> None:
    words = np.array(["a", "b"], object)
    assert answer(a_case("Identity", [words], words)).said == "is of strings"
    assert answer(a_case("Identity", [[X]], X)).said == "is of sequences or optional values"
    assert answer(a_case("RoiAlign", [X], X)).said == "has no function here"
    assert answer(a_case("Dropout", [X, np.array(0.5, np.float32), np.array(True)], X)).said.endswith("draws at random")
    assert answer(a_case("Einsum", [X.astype(np.float64)], X.T.astype(np.float64), equation="ab->ba")).result == RIGHT


def test_tables_count_each_test_once() -> None:
    right = NodeAnswer("test_a", "A", "float32 to float32", True, FORMULA, RIGHT, others=2, wider=500.0, tight=0.0)
    wrong = NodeAnswer(
        "test_b", "B", "float16 to float16", True, FORMULA, WRONG, "y = 2, must be 1", wider=0.5, tight=1.0
    )
    other = NodeAnswer("test_c", "C", "object to bool", said="is of strings")
    found = [right, wrong, other]
    assert {row[0]: row[1:] for row in shares(found).rows}["all"] == ("3", "2", "0", "0", "1", "1", "1", "2")
    assert deviations(found).rows == [("test_b", "float16 to float16", FORMULA, "y = 2, must be 1", "NEW")]
    assert new_deviations(found) == [wrong]
    assert [row[1:] for row in reasons(found).rows] == [("is of strings", "1", "C")]
    assert [row[0] for row in tolerances(found).rows] == ["test_a", "test_b"]


def test_each_test_is_judged_in_a_process() -> None:
    cases = [a_case("Softmax", [X], softmax(X).astype(np.float32)), replace(a_case("Abs", [X], X), name="test_abs")]
    assert {each.name: each.result for each in all_answers(cases, 1)} == {"test_softmax": RIGHT, "test_abs": WRONG}


def test_the_command_says_what_it_needs(cli_here: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = cli_here("onnx", app=app)
    assert done.returncode == 4
    assert "the tests of ONNX's nodes need onnx: pip install onnx" in done.stderr


def test_the_page_lists_all_that_is_known() -> None:
    page = (Path(verb.__file__).parents[2] / "docs" / "onnx.md").read_text("utf-8")
    assert known()
    assert not [name for name in known() if f"`{name.removeprefix('test_')}`" not in page]
