"""A module that takes none of the small numbers that stand for those of its problem."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.conftest import Cli

_MODEL = """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return self.linear(x)

size = 1024

def get_inputs():
    return [torch.rand(128, size)]

def get_init_inputs():
    return [size]
"""


def test_what_refuses_the_small_numbers_that_stand_for_larger_ones_is_undecided(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(_MODEL)
    mine = _MODEL.replace("class Model(", "class ModelNew(").replace(
        "        return", "        assert x.shape[-1] % 256 == 0\n        return"
    )
    (tmp_path / "mine.py").write_text(mine)
    words = ("--against", "model.py", "--seed", "1", "--trusted", "--max-cases", "4", "--target", "*@cpu")
    done = cli_here("judge", "mine.py", *words)
    assert done.returncode == 11, done.stdout + done.stderr
    assert "undecided    mine.py  it refuses the small numbers that stand for those of the problem" in done.stdout
    assert "asserted in mine.py line 10" in done.stdout
    assert "FAIL" not in done.stdout
