"""The calls of a `ModelNew`: its weights, its dtype and its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.judging import read_statement
from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.solution import Solution, solution_of
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import Mode, Module, Statement, UnreadStatementError


def test_a_module_of_several_outputs_returns_them_by_their_names() -> None:
    text = (
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + 1, x.sum(-1)\n"
    )
    problem = Statement("two", len, module=Module((), ("x",), {}, {}))
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
    problem = Statement("lin", len, dtypes={"x": "float32"}, module=module)
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
    problem = Statement("lin", len, dtypes={"x": "float32"}, module=module)
    known: dict[str, Any] = {}
    exec(
        Solution("lin", {"lin.py": text}, "lin.py", "ModelNew", "torch", ()).written(problem, "xw", "y")["lin.py"],
        known,
    )
    for weight in (1.0, 3.0):
        found = known["judged"](torch.ones(4, 3), torch.full((2, 3), weight))
        assert (found == 6 * weight).all()


_TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, n, m, scale=1.0):
        super().__init__()
        self.lin, self.scale = torch.nn.Linear(n, m), scale

    def forward(self, x):
        return self.lin(x) * self.scale

def get_inputs():
    return [torch.rand(5, 3)]

def get_init_inputs():
    return [3, 2, 0.5]
"""


def _solution(folder: Path, text: str, task: str = _TASK) -> tuple[Statement, Any]:
    (folder / "task.py").write_text(task)
    (folder / "mine.py").write_text(text)
    problem = next(iter(statements_of(str(folder / "task.py"))))
    solution = solution_of(str(folder / "mine.py"), problem)
    known: dict[str, Any] = {}
    exec(solution.written(problem, [*(problem.shapes or ())], "y")["mine.py"], known)
    return problem, known["judged"]


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("x, weight, bias, scale", "(x @ weight.T + bias) * scale"),
        ("x, W, b, scale", "(x @ W.T + b) * scale"),
        ("a, lin_weight, bias, out=None, *, scale=3.0, eps=1e-5", "(a @ lin_weight.T + bias) * scale"),
    ],
)
def test_a_function_is_given_what_a_module_is_made_of(tmp_path: Path, parameters: str, body: str) -> None:
    text = f"import torch\n\ndef helper(x): ...\n\ndef kernel_function({parameters}):\n    return {body}\n"
    problem, judged = _solution(tmp_path, text)
    given = [torch.rand(5, 3), torch.rand(2, 3), torch.rand(2)]
    named = dict(zip(problem.shapes or (), given, strict=True))
    torch.testing.assert_close(judged(*given), problem.reference(**named))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            "x, first, second",
            "needs first and second: beside x, Model has n, m, scale, weight, bias, lin_weight, lin_bias",
        ),
        ("x, weight", "does not take lin_bias: beside x, "),
        ("x, weight, groups", "needs groups: beside x, "),
    ],
)
def test_a_function_that_is_not_given_all_is_refused_with_what_to_write(
    tmp_path: Path, parameters: str, words: str
) -> None:
    with pytest.raises(TaskError) as refused:
        _solution(tmp_path, f"def kernel_function({parameters}):\n    return x\n")
    assert words in str(refused.value)
    assert str(refused.value).endswith("Write a class ModelNew whose forward(x) calls it")


def test_a_module_of_more_tensors_than_a_case_has_keeps_its_weights(tmp_path: Path) -> None:
    """Both are constructed from one seed, as KernelBench does."""
    task = _TASK.replace("torch.nn.Linear(n, m)", "torch.nn.Sequential(*(torch.nn.Linear(n, n) for _ in range(24)))")
    problem, judged = _solution(tmp_path, task.replace("class Model(", "class ModelNew("), task)
    assert [*(problem.shapes or ())] == ["x"]
    assert problem.remarks == [
        "no weights but those of one seed, from which both modules are constructed, as KernelBench does: a case has no "
        "more than 48 tensors, nor a weight of more than 4,194,304 elements"
    ]
    x = torch.rand(5, 3, dtype=torch.float64)
    torch.testing.assert_close(judged(x.float()), problem.reference(x=x).float())
    assert problem.reference(x=x).dtype == torch.float64
    words = ((str(tmp_path / "mine.py"),), str(tmp_path / "task.py"), None, "finite", 1, 8, 8)
    with pytest.raises(UnreadStatementError, match="it has more or larger tensors than a case") as unread:
        read_statement(Asked(*words, tmp_path, False, (), None, None))
    own = unread.value.statement
    assert own.own is not None
    assert (own.module is not None and own.module.one_seed, [*own.own(1)]) == (True, ["x"])


def test_extents_of_1_and_those_that_a_module_is_constructed_with_do_not_vary(tmp_path: Path) -> None:
    """`Model` itself may not look at them: torch's InstanceNorm2d takes any number of features without weights of its
    own, and a solution with weights for as many as it is told does not."""
    (tmp_path / "task.py").write_text(
        "import torch\n\nMOST, features = 64, 48\n\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self, features):\n        super().__init__()\n"
        "    def forward(self, x):\n        return x * 2\n\n"
        "def get_inputs():\n    return [torch.rand(MOST, features, 1)]\n\n"
        "def get_init_inputs():\n    return [features]\n"
    )
    problem = next(statements_of(str(tmp_path / "task.py")))
    assert problem.module is not None
    size = problem.module.tied["d1"]
    assert (problem.shapes, problem.fixed) == ({"x": "d0 d1 d2"}, {"d1": size, "d2": 1})
    said = f"any d1 but {size}, any d2 but 1"
    [remark] = problem.remarks
    assert remark.endswith(f", as get_inputs() and get_init_inputs() have it so: {said}")


def test_a_module_that_keeps_a_buffer_by_a_second_name_is_called_again() -> None:
    """As what it caches of a norm in its first call. It crashed in a line of ours."""
    text = """import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cached", None)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x):
        self.cached = self.norm.running_mean
        return self.norm(x)
"""
    module = Module((), ("x",), {}, {}, mode=Mode(training=True, changed=("norm.running_mean",)))
    problem = Statement("norm", len, dtypes={"x": "float32"}, module=module)
    known: dict[str, Any] = {}
    exec(Solution("norm", {"n.py": text}, "n.py", "ModelNew", "torch", ()).written(problem, "x", "y")["n.py"], known)
    x = torch.rand(4, 3)
    assert torch.equal(known["judged"](x), known["judged"](x))
