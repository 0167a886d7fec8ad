"""A module of torch that is wrong is found, explained, and named by its own file."""

from __future__ import annotations

from typing import Any

import pytest

import fuzz
from fuzz.tests.cover.tasks.test_check_module import Mine, Model, inputs


class Wrong(Mine):
    def forward(self, x: Any) -> Any:
        return (x @ self.gain.T).clamp(min=0) * 0.5


def test_a_wrong_module_fails_with_the_name_of_its_file() -> None:
    with pytest.raises(fuzz.CheckFailed) as raised:
        fuzz.check_module(Wrong, Model, inputs, lambda: [24, 16], max_cases=24)
    said = str(raised.value)
    assert said.startswith("FAIL  wrong  ignores linear_bias"), said
    assert "test_check_module.py, cpu" in said
    assert "linear_bias 16 f32" in said
