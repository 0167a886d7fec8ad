"""What a check expects of a plain function: no more than the functions of its library give."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fuzz
from fuzz import Contract, Op, Operand
from fuzz import formula as f
from fuzz.core.base.platforms import PLATFORMS
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tests.common.own_op import registered
from oracles.formula.node import Node
from oracles.formula.trace import Outputs
from oracles.tests.common.whole import quarter


@pytest.fixture(autouse=True)
def _options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))


def gated_gelu(x: Node, bias: Node, residual: Node) -> Outputs:
    z = x + bias
    return {"y": 0.5 * z * (1 + f.erf(z * math.sqrt(0.5))) * residual}


GATED_GELU = Op(
    gated_gelu,
    inputs=(Operand("x", "... n"), Operand("bias", "n"), Operand("residual", "... n")),
    outputs=(Operand("y", "... n"),),
)


def polynomial(x: Any) -> Any:
    """Return an error function as libraries have it, 7.1.26 of Abramowitz and Stegun: off by 1.5e-7, near 0 too."""
    size = x.abs()
    t = 1 / (0.3275911 * size + 1)
    terms = torch.zeros_like(x)
    for each in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        terms = (terms + each) * t
    return torch.copysign(1 - terms * torch.exp(-size * size), x)


def gelu(x: Any, bias: Any, residual: Any, erf: Callable[[Any], Any] = polynomial) -> Any:
    z = x + bias
    return 0.5 * z * (1 + erf(z * math.sqrt(0.5))) * residual


def checked(function: Callable[..., Any], op: Op, **options: Any) -> None:
    with registered(op):
        fuzz.check(function, op=op, max_cases=100, seed=1, **options)


@pytest.mark.whole
def test_an_error_function_of_a_library_is_right_in_torch_and_wrong_under_a_contract_that_is_declared() -> None:
    def mine(x: Any, bias: Any, residual: Any) -> Any:
        return gelu(x, bias, residual)

    checked(mine, GATED_GELU)
    with pytest.raises(fuzz.CheckFailed, match="FAIL  mine"):
        checked(mine, GATED_GELU, contract=Contract(platform="none"))


@pytest.mark.whole
def test_a_gelu_that_is_off_by_more_than_a_library_is_wrong() -> None:
    """By twice as much as the error function may be off; and one by tanh, which is 5e-4 off."""

    def twice(x: Any, bias: Any, residual: Any) -> Any:
        return gelu(x, bias, residual, lambda z: torch.erf(z) + 10 * 2.0**-23)

    def by_tanh(x: Any, bias: Any, residual: Any) -> Any:
        return torch.nn.functional.gelu(x + bias, approximate="tanh") * residual

    for wrong in (twice, by_tanh):
        with pytest.raises(fuzz.CheckFailed, match=f"FAIL  {wrong.__name__}"):
            checked(wrong, GATED_GELU)


def test_the_exponential_of_a_sigmoid_may_overflow() -> None:
    def gate(x: Node) -> Outputs:
        return {"y": x * f.sigmoid(x)}

    def mine(x: Any) -> Any:
        return x / (1 + torch.exp(-x))

    op = Op(gate, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n"),))
    checked(mine, op)
    with pytest.raises(fuzz.CheckFailed, match="FAIL  mine"):
        checked(mine, op, contract=Contract(zeros="any", platform="none"))


def test_sums_over_several_dimensions_are_in_any_order_too() -> None:
    def whole(x: Node) -> Outputs:
        return {"y": f.total(x, ("b", "n"))}

    op = Op(whole, inputs=(Operand("x", "b n"),), outputs=(Operand("y", ""),))
    assert PLATFORMS["torch@cpu"].undeclared(op).order("y", "b n") == fuzz.AnyOrder()


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["tan", "acos", "asinh", "erfc", "lgamma", "cosh"])
def test_a_function_of_torch_is_right_and_one_that_is_off_by_more_than_it_is_wrong(name: str) -> None:
    def read(x: Any) -> Any:
        return getattr(torch, name)(x)

    def off(x: Any) -> Any:
        return getattr(torch, name)(x) * (1 + 2.0**-18)

    fuzz.check(read, reference=read, shapes="x=b n", max_cases=quarter(30), seed=1)
    with pytest.raises(fuzz.CheckFailed, match="FAIL  off"):
        fuzz.check(off, reference=read, shapes="x=b n", max_cases=quarter(30), seed=1)
