"""A module of torch is held against another one, from inside a test."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fuzz


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(n, m)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.linear(x)) / 2.0


class Mine(torch.nn.Module):  # type: ignore[misc]
    """Its weights have other names."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.bias, self.gain = (torch.nn.Parameter(torch.zeros(shape)) for shape in ((m,), (m, n)))

    def forward(self, x: Any) -> Any:
        return (x @ self.gain.T + self.bias).clamp(min=0) * 0.5


def inputs() -> list[Any]:
    return [torch.rand(8, 24)]


def test_a_right_module_passes(capsys: pytest.CaptureFixture[str]) -> None:
    fuzz.check_module(Mine, Model, inputs, lambda: [24, 16], max_cases=24)
    assert "mine passed: 24 cases" in capsys.readouterr().err


def test_what_cannot_be_read_is_said() -> None:
    class Sorting(Model):
        def forward(self, x: Any) -> Any:
            return self.linear(x).cummax(-1).values

    with pytest.raises(fuzz.CheckError, match=r"aten\.cummax"):
        fuzz.check_module(Mine, Sorting, inputs, lambda: [24, 16])
