"""Tasks of others: how each is read, and that one which ends its process harms no other."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.quality.__main__ import app
from fuzz.tests.conftest import Cli

_TASK = """
import os

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {returned}


def get_inputs():
    return [torch.rand(16, 24)]


def get_init_inputs():
    return []
"""


def test_each_task_says_how_it_is_read(cli_here: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "level7"
    folder.mkdir()
    returned = {"read": "torch.softmax(x, -1)", "none": "torch.nonzero(x > 0.5)", "ends": "os._exit(3)"}
    for name, each in returned.items():
        (folder / f"{name}.py").write_text(_TASK.format(returned=each))
    (folder / "other.py").write_text("x = 1\n")
    told = cli_here("tasks", str(tmp_path), "--json", str(tmp_path / "found"), app=app)
    assert told.returncode == 0, told.stderr
    assert "level7" in told.stdout
    found = {Path(each["task"]).stem: each for each in json.loads((tmp_path / "found").read_text())["tasks"]}
    assert [found[each]["by"] for each in ("read", "ends")] == ["formula", "neither"]
    assert found["none"]["by"] != "formula"
    assert found["none"]["why"]
    assert found["ends"]["why"] == "its process ended with 3"
    assert "no file with get_inputs" in cli_here("tasks", str(tmp_path / "none"), app=app).stderr
