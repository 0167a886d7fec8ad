"""A reference is traced as torch runs it, and costs no more than that."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError


@pytest.mark.whole
def test_torch_imports_no_compiler_for_a_reference() -> None:
    """It would take longer than a whole check does."""
    program = """
import sys, numpy as np, torch
from fuzz.references.derive import derive
from fuzz.references.rerun import replayed, ways_of
found = derive(lambda x: torch.nn.functional.silu(x) * x.sum(-1, keepdim=True), "x=b n")
replayed(ways_of(lambda x: torch.softmax(x, -1)), {"x": np.ones((2, 3))})
print(len(found.op.inputs), "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_what_follows_from_no_argument_may_become_a_number() -> None:
    def scaled(x: Any) -> Any:
        return x * torch.linspace(1.0, 3.0, 3).max().item() if torch.tensor(True) else x

    assert "x * 3.0" in derive(scaled, "x=b n").formula.text


def test_what_an_argument_was_written_to_is_no_constant() -> None:
    def hidden(x: Any) -> Any:
        kept = torch.zeros(2)
        kept[1:].copy_(x.sum())
        return x * kept[1].item()

    with pytest.raises(UnreadableError, match=r"a value decides .* \(test_reference_tracing.py line "):
        derive(hidden, "x=b n")


def test_what_is_drawn_is_no_constant() -> None:
    with pytest.raises(UnreadableError, match="a value decides"):
        derive(lambda x: x * torch.rand(()).item(), "x=b n")


def test_tensors_that_are_stacked_have_a_dimension_of_their_own() -> None:
    def beside(x: Any, y: Any) -> Any:
        return torch.stack([x, y * 2.0, x.sum(1, keepdim=True).expand_as(x)], 1)

    def interleaved(x: Any, y: Any) -> Any:
        return torch.stack([x - y, x + y], -1).flatten(-2)

    found = derive(beside, "x=b n, y=b n")
    assert 'stacked = f.position("stacked", 3.0)' in found.formula.text
    assert [each.dims for each in found.op.outputs] == ["b stacked n"]
    assert len(derive(interleaved, "x=b n, y=b n").op.outputs[0].axes) == 2
    assert derive(lambda x: torch.stack([x.sum(), x.amax()]), "x=b n").op.outputs[0].dims == "stacked"
    assert "stacked" not in derive(lambda x: torch.stack([x]), "x=b n").formula.text
