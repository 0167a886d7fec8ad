"""Dimensions of a module's tensors are told apart by their extents, and by what can be multiplied."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.judging import read_statement
from fuzz.tasks.judge.written import derived
from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.source import TaskError

SQUARE = """
import torch
from torch import nn

N = 2048

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(N, N), torch.rand(N, N)]
"""
LAST = SQUARE.replace("a @ b", "a * b").replace("torch.rand(N, N), torch.rand(N, N)", "torch.rand(N, N), torch.rand(N)")
CONV = """
import torch
from torch import nn

batch_size = 16
in_channels = 16
num_groups = 32
out_channels = 128
size = 64

class Model(nn.Module):
    def __init__(self, in_channels, out_channels, num_groups):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, 3)
        self.norm = nn.GroupNorm(num_groups, out_channels)
        self.bias = nn.Parameter(torch.randn(out_channels, 1))

    def forward(self, x):
        return self.norm(self.conv(x)) + self.bias

def get_inputs():
    return [torch.rand(batch_size, in_channels, size)]

def get_init_inputs():
    return [in_channels, out_channels, num_groups]
"""


def _said(tmp_path: Path, text: str) -> str:
    """What is read of the first of the problems that can be."""
    (tmp_path / "problem.py").write_text(text)
    for each in statements_of(str(tmp_path / "problem.py")):
        try:
            return derived(each, "finite").said
        except TaskError:
            continue
    raise AssertionError("none can be read")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SQUARE, "a[d0, d1], b[d1, d2] -> y[d0, d2]"),
        (LAST, "a[d0, d1], b[d1] -> y[d0, d1]"),
        (CONV, "x[d0, d1, d2], bias[d3, d5], conv_weight[d3, d1, d4], conv_bias[d3], norm_weight[d3], "
               "norm_bias[d3] -> y[d0, d3, d2_out]"),
    ],
    ids=["square", "last", "conv"],
)  # fmt: skip
def test_a_problem_is_read(text: str, words: str, tmp_path: Path) -> None:
    assert words in _said(tmp_path, text)


LARGE = """
import torch
from torch import nn

channels, depth = 64, 16

class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2 * channels, (7, 9), padding=8, bias=False)

    def forward(self, x):
        return self.conv(x)

def get_inputs():
    return [torch.rand(4, channels, depth, depth)]

def get_init_inputs():
    return [channels]
"""


@pytest.mark.whole
def test_numbers_are_so_small_that_there_is_room_for_other_extents(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(LARGE)
    asked = Asked((), str(tmp_path / "problem.py"), None, "finite", 1, 1, 1, tmp_path, False, (), None, None)
    problem, _ = read_statement(asked)
    assert problem.tier == 1
    assert sorted(problem.fixed.values()) == [7, 9, 12, 24]
    [first, *_] = statements_of(asked.against)
    assert sorted(first.fixed.values()) == [7, 9, 24, 48]


TIED = """
import torch
from torch import nn

batch_size, channels, out_channels, width = 32, 32, 64, 32

class Model(nn.Module):
    def __init__(self, channels, out_channels):
        super().__init__()
        self.conv = nn.ConvTranspose1d(channels, out_channels, 4, stride=2, padding=1)
        self.norm = nn.LayerNorm(out_channels)

    def forward(self, x):
        return self.norm(self.conv(x))

def get_inputs():
    return [torch.rand(batch_size, channels, width)]

def get_init_inputs():
    return [channels, out_channels]
"""


def test_a_module_of_which_one_extent_decides_another_varies_in_its_batch(tmp_path: Path) -> None:
    """The norm takes rows as long as there are channels, which the width doubled is: any other numbers make no module,
    or none that takes any width."""
    (tmp_path / "problem.py").write_text(TIED)
    asked = Asked((), str(tmp_path / "problem.py"), None, "finite", 1, 1, 1, tmp_path, False, (), None, None)
    problem, found = read_statement(asked)
    assert problem.examples == ({"d0": 4},)
    assert "x[d0, d1, d2]" in found.said


@pytest.mark.parametrize("inputs", ["torch.tensor(2.0), torch.rand(32, 32)", "torch.tensor(2.0), torch.tensor(3.0)"])
def test_what_no_numbers_make_readable_is_refused_where_the_first_input_has_no_dimension(
    inputs: str, tmp_path: Path
) -> None:
    decides = SQUARE.replace("a @ b", "a if b.sum() > 0 else -a").replace("torch.rand(N, N), torch.rand(N, N)", inputs)
    (tmp_path / "problem.py").write_text(decides)
    asked = Asked((), str(tmp_path / "problem.py"), None, "finite", 1, 1, 1, tmp_path, False, (), None, None)
    with pytest.raises(TaskError, match="a value decides what it does"):
        read_statement(asked)


OWN = """
import torch
from torch import nn

ALL = 1024
HALF = ALL // 2
batch_size = 64
other = 128

class Model(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.half, self.other = HALF, other

    def forward(self, x):
        return x / self.half

def get_inputs():
    return [torch.rand(batch_size, ALL, other)]

def get_init_inputs():
    return [other]
"""
READS = "other = 128\nclass ModelNew:\n    def forward(self, x):\n        return x / other"


@pytest.mark.parametrize(
    ("solution", "fixed"),
    [("", [24, 1024]), (READS, [128, 1024]), (READS.replace("self, x", "self, x, other"), [24, 1024])],
)
def test_a_number_that_a_class_reads_by_itself_stays_and_what_is_as_long_does_not_vary(
    solution: str, fixed: list[int], tmp_path: Path
) -> None:
    """A solution has the same number in its own file, which nothing changes."""
    (tmp_path / "problem.py").write_text(OWN)
    (tmp_path / "solution.py").write_text(solution)
    problem = next(statements_of(str(tmp_path / "problem.py"), [str(tmp_path / "solution.py")]))
    assert problem.reference(x=torch.tensor([512.0])) == 1
    assert sorted(problem.fixed.values()) == fixed
    assert {*problem.examples[0].values()} <= {5, 24}


NORM = """
import torch
from torch import nn

shape = 64, 256, 256

class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm = nn.LayerNorm(shape)

    def forward(self, x):
        return self.norm(x)

def get_inputs():
    return [torch.rand(16, *shape)]

def get_init_inputs():
    return [shape]
"""


def test_extents_of_weights_are_small_where_together_they_are_many_elements(tmp_path: Path) -> None:
    """With 24 by 32 by 40 elements each case would take seconds."""
    (tmp_path / "problem.py").write_text(NORM.replace("256, 256", "256, 250"))
    asked = Asked((), str(tmp_path / "problem.py"), None, "finite", 1, 1, 1, tmp_path, False, (), None, None)
    problem, _ = read_statement(asked)
    assert sorted(problem.fixed.values()) == [8, 12, 20]
