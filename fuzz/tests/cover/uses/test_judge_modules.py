"""The calls of a `ModelNew`: its weights, its dtype and its outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fuzz.uses.judge.problem import Module, Problem
from fuzz.uses.judge.solution import Solution


def test_a_module_of_several_outputs_returns_them_by_their_names() -> None:
    text = (
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + 1, x.sum(-1)\n"
    )
    problem = Problem("two", len, module=Module((), ("x",), {}, {}))
    [made] = Solution("two", {"two.py": text}, "two.py", "ModelNew", "torch", ()).written(problem, "x", "yz").values()
    known: dict[str, Any] = {}
    exec(made, known)
    found = known["judged"](torch.ones(2, 3))
    assert {name: tuple(each.shape) for name, each in found.items()} == {"y": (2, 3), "z": (2,)}


def test_a_module_is_of_the_dtype_that_it_is_given() -> None:
    """As after `model.double()`: one with weights of f32 raises for each that is given f64."""
    text = """import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(2) / 3)

    def forward(self, x):
        return self.lin(x) + self.shift
"""
    module = Module((), ("x",), {"w": "lin.weight", "b": "lin.bias"}, {})
    problem = Problem("lin", len, dtypes={"x": "float32"}, module=module)
    solution = Solution("lin", {"lin.py": text}, "lin.py", "ModelNew", "torch", ())
    known: dict[str, Any] = {}
    exec(solution.written(problem, "xwb", "y")["lin.py"], known)
    for dtype in (torch.bfloat16, torch.float64, torch.float32):
        x, w, b = (torch.ones(shape, dtype=dtype) for shape in ((4, 3), (2, 3), (2,)))
        found = known["judged"](x, w, b)
        assert found.dtype == dtype
        assert (found == 4 + (torch.ones(2) / 3).to(dtype)).all(), "what was rounded once is not taken again"


@pytest.mark.parametrize(
    "kept",
    [
        """
    def forward(self, x):
        if self.lin.weight._version != self.seen:
            self.seen, self.folded = self.lin.weight._version, self.lin.weight.t() * 2
        return x @ self.folded
""",
        """
    def train(self, mode=True):
        self.folded = None
        return super().train(mode)

    def forward(self, x):
        if self.folded is None:
            self.folded = self.lin.weight.t() * 2
        return x @ self.folded
""",
        """
    def _load_from_state_dict(self, *args):
        self.folded = None
        return super()._load_from_state_dict(*args)

    def forward(self, x):
        if self.folded is None:
            self.folded = self.lin.weight.t() * 2
        return x @ self.folded
""",
    ],
    ids=["by the version of the weights", "until the mode is set", "until others are loaded"],
)
def test_a_module_may_keep_what_it_made_of_its_weights_until_others_are_loaded(kept: str) -> None:
    text = f"""import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.seen, self.folded = torch.nn.Linear(3, 2, bias=False), -1, None
{kept}"""
    module = Module((), ("x",), {"w": "lin.weight"}, {})
    problem = Problem("lin", len, dtypes={"x": "float32"}, module=module)
    known: dict[str, Any] = {}
    exec(
        Solution("lin", {"lin.py": text}, "lin.py", "ModelNew", "torch", ()).written(problem, "xw", "y")["lin.py"],
        known,
    )
    for weight in (1.0, 3.0):
        found = known["judged"](torch.ones(4, 3), torch.full((2, 3), weight))
        assert (found == 6 * weight).all()
