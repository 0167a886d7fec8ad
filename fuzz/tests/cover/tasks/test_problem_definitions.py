"""Definitions in JSON: numbers beside tensors, dtypes that differ or are not said, extents that are numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fuzz.tasks.check.reference import contract_of
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.judging import read_statement
from fuzz.tasks.judge.written import floats_of, probes_of
from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.solution import solutions_of
from fuzz.tasks.readers.statement import UnreadStatementError

X = {"shape": ["M", "N"], "dtype": "bfloat16"}
NORM = "def run(x, w, eps): return (x.float() * (x.float().square().mean(-1, True) + eps).rsqrt() * w).bfloat16()"
TOPK = "import torch\ndef run(x, k=2): return torch.topk(x, k, dim=-1).values"


def _asked(folder: Path, inputs: Mapping[str, Any], reference: str, outputs: Mapping[str, Any] | None = None) -> Asked:
    axes = {"M": {"type": "var"}, "N": {"type": "var"}}
    said = {"name": "it", "axes": axes, "inputs": inputs, "outputs": outputs or {"y": X}, "reference": reference}
    (folder / "it.json").write_text(json.dumps(said))
    (folder / "mine.py").write_text(reference)
    solutions = (str(folder / "mine.py"),)
    return Asked(solutions, str(folder / "it.json"), None, "finite", 1, 1, 1, folder, False, (), None, None)


def _entry(asked: Asked) -> str:
    """The function that calls a solution."""
    problem, found = read_statement(asked)
    [(_, solution)] = solutions_of(asked.solutions, problem, asked.against).values()
    [text] = solution.written(problem, [*found.called], [each.name for each in found.op.outputs]).values()
    return text.partition("# How kernelfuzz calls it.\n")[2]


def test_a_number_is_given_as_one_and_each_tensor_in_its_own_dtype(tmp_path: Path) -> None:
    inputs = {"x": X, "w": {"shape": ["N"], "dtype": "float32"}, "eps": {"shape": None, "dtype": "float32"}}
    asked = _asked(tmp_path, inputs, NORM)
    assert "run(x=x, w=w, eps=eps.item())" in _entry(asked)
    problem, found = read_statement(asked)
    assert [each.dtype for each in found.op.operands] == ["", "f32", "f32", ""]
    assert floats_of(problem, "x") == ["bf16"]
    assert "caller" not in probes_of(problem)


def test_an_input_of_8_bits_is_given_as_one_and_steps_are_rounded_to_more(tmp_path: Path) -> None:
    codes, scales = {"shape": ["M", "N"], "dtype": "float8_e4m3fn"}, {"shape": ["M"], "dtype": "float32"}
    reference = "def run(x, s): return (x.float() * s[:, None]).bfloat16().float().exp().bfloat16()"
    problem, found = read_statement(_asked(tmp_path, {"x": codes, "s": scales}, reference))
    assert [each.dtype for each in found.op.operands] == ["", "f32", "bf16"]
    assert floats_of(problem, "x") == ["e4m3fn"]
    assert floats_of(problem) == ["f32"], "without a first input, those that are calculated in"
    points = contract_of(found, "torch", ["e4m3fn"], strict=False).points
    assert {*points.values()} == {"maybe bf16"}
    assert {*contract_of(found, "torch", ["f16"], strict=False).points.values()} == {"maybe input"}


def test_an_input_of_8_bits_may_come_after_another_one(tmp_path: Path) -> None:
    codes, reference = {"shape": ["N"], "dtype": "float8_e5m2"}, "def run(x, w): return x * w.bfloat16()"
    _, found = read_statement(_asked(tmp_path, {"x": X, "w": codes}, reference))
    assert [each.dtype for each in found.op.operands] == ["", "e5m2", ""]


def test_an_output_has_the_dtype_that_is_said(tmp_path: Path) -> None:
    outputs = {"y": X, "lse": {"shape": ["M"], "dtype": "float32"}}
    _, found = read_statement(_asked(tmp_path, {"x": X}, "def run(x): return x, x.float().logsumexp(-1)", outputs))
    assert [each.dtype for each in found.op.outputs] == ["", "f32"]


def test_a_whole_number_has_its_default_and_a_parameter_with_a_default_is_no_output(tmp_path: Path) -> None:
    asked = _asked(tmp_path, {"x": X, "k": {"shape": None, "dtype": "int32"}}, TOPK)
    assert "run(x, 2)" in _entry(asked)
    assert "found = run(x=x, k=2)" in _entry(_asked(tmp_path, {"x": X}, TOPK))


def test_another_whole_number_is_left_to_a_replay(tmp_path: Path) -> None:
    asked = _asked(tmp_path, {"x": X, "k": {"shape": None, "dtype": "int32"}}, TOPK.replace("k=2", "k"))
    with pytest.raises(UnreadStatementError, match="a value decides"):
        read_statement(asked)


@pytest.mark.parametrize("dtype", [{}, {"dtype": "unknown"}])
def test_a_dtype_that_is_not_said_is_what_the_reference_takes(dtype: Mapping[str, str], tmp_path: Path) -> None:
    inputs = {"x": {"shape": ["M", "N"], **dtype}, "at": {"shape": ["M"], **dtype}}
    _, found = read_statement(_asked(tmp_path, inputs, "def run(x, at): return x.gather(1, at[:, None])"))
    assert found.op.operand("at").index == "n"


def test_an_extent_may_be_a_number(tmp_path: Path) -> None:
    [problem] = statements_of(_asked(tmp_path, {"x": {"shape": ["M", 4]}}, "def run(x): return 2 * x").against)
    assert (problem.shapes, problem.fixed) == ({"x": "M n4"}, {"n4": 4})
