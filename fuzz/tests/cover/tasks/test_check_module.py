"""A module of torch is held against another one, from inside a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fuzz
from fuzz.tasks.check.setup import GIVEN, Options
from oracles.tests.common.whole import quarter


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
    fuzz.check_module(Mine, Model, inputs, lambda: [24, 16], max_cases=quarter(24))
    assert f"mine passed: {quarter(24)} cases" in capsys.readouterr().err


def test_what_cannot_be_read_is_said() -> None:
    class Sorting(Model):
        def forward(self, x: Any) -> Any:
            return self.linear(x).mode(-1).values

    with pytest.raises(fuzz.CheckError, match=r"aten\.mode"):
        fuzz.check_module(Mine, Sorting, inputs, lambda: [24, 16])


class Packed(Mine):
    """It takes its weights once."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, m)
        self.packed = torch.rand(n, m)

    def forward(self, x: Any) -> Any:
        return (x @ self.packed + self.bias).clamp(min=0) * 0.5


class Short(Model):
    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, 1)


class Wide(Model):
    """Its weight has another axis."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, m)
        self.linear.bias = torch.nn.Parameter(torch.zeros(1, m))


@pytest.mark.whole
def test_weights_that_are_set_after_construction_and_ignored_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path, explain_s=1e-3))
    with pytest.raises(fuzz.CheckFailed, match="packed  ignores linear_weight"):
        fuzz.check_module(Packed, Model, inputs, lambda: [24, 16], max_cases=quarter(24))


def test_a_weight_of_another_shape_is_named_and_one_with_another_axis_is_filled() -> None:
    with pytest.raises(fuzz.CheckError, match=r"its linear.weight has shape \[1, 24\], the reference's \[16, 24\]"):
        fuzz.check_module(Short, Model, inputs, lambda: [24, 16], max_cases=quarter(24))
    fuzz.check_module(Wide, Model, inputs, lambda: [24, 16], max_cases=quarter(24))
