"""The functions of torch and NumPy, as they are on this processor, are right as a check judges a plain function."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz import Op, Operand
from fuzz import formula as f
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tests.common.own_op import registered
from oracles.formula.node import Node

F = torch.nn.functional
ONE = np.float32(1)


def _tanh_gelu(x: Node) -> Node:
    return 0.5 * x * (1 + f.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _gelu(x: Any) -> Any:
    """Return torch's own gelu: that of oneDNN, which torch 2.11 takes with AVX-512, returns NaN for infinity."""
    with torch.backends.mkldnn.flags(enabled=False):
        return F.gelu(x)


OF_TORCH: dict[str, tuple[Callable[[Any], Any], Callable[[Node], Node]]] = {
    "gelu": (_gelu, lambda x: 0.5 * x * (1 + f.erf(x * math.sqrt(0.5)))),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), _tanh_gelu),
    "silu": (F.silu, lambda x: x * f.sigmoid(x)),
    "mish": (F.mish, lambda x: x * f.tanh(f.softplus(x))),
    "sigmoid": (torch.sigmoid, f.sigmoid),
    "logsigmoid": (F.logsigmoid, lambda x: -f.softplus(-x)),
    "root": (lambda x: torch.sqrt(x * x + 1), lambda x: f.sqrt(x * x + 1)),
    "elu": (F.elu, lambda x: f.where(x > 0, x, f.expm1(x))),
}
OF_NUMPY: dict[str, tuple[Callable[[Any], Any], Callable[[Node], Node]]] = {
    "exp": (np.exp, f.exp),
    "log": (lambda x: np.log(x * x + ONE), lambda x: f.log(x * x + 1)),
    "sin": (np.sin, f.sin),
    "tanh": (np.tanh, f.tanh),
}
ALL = [("torch", *each) for each in OF_TORCH.items()] + [("numpy", *each) for each in OF_NUMPY.items()]


@pytest.mark.parametrize(("arrays", "name", "both"), ALL)
def test_the_functions_of_a_library_pass(
    arrays: Any, name: str, both: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    function, formula = both

    def theirs(x: Any) -> Any:
        return function(x)

    def toy(x: Node) -> dict[str, Node]:
        return {"y": formula(x)}

    toy.__name__ = f"toy_{name}_of_{arrays}"
    op = Op(toy, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n"),))
    with registered(op):
        fuzz.check(theirs, op=op, arrays=arrays, max_cases=500, seed=2)
