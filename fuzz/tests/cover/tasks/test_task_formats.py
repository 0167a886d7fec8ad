"""Tasks as published ones are written: room for outputs among the data, packages that are not here, other languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.solution import solution_of
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import Statement
from fuzz.tests.conftest import Cli

_SCALED = """import torch
from torch import Generator

def generate_input(rows: int, n: int, seed: int):
    made: "Generator | None" = Generator(device="cuda").manual_seed(seed)
    x = torch.randn(rows, n, device="cuda", generator=made)
    return x, torch.rand(3, device="cuda"), torch.arange(rows, device="cuda") / 8

def ref_kernel(data):
    x, w, y = data
    y[...] = (x * w.sum()).sum(-1)
    return y
"""
_TESTS = "tests:\n  - {'rows': 8, 'n': 16, 'seed': 1}\n  - {'rows': 4, 'n': 40, 'seed': 2}\n"


def _task(folder: Path, reference: str, tests: str = _TESTS) -> str:
    task = folder / "scaled"
    task.mkdir()
    (task / "task.yml").write_text(tests)
    (task / "reference.py").write_text(reference)
    return str(task)


def _solution(folder: Path, text: str, statement: Statement) -> str:
    (folder / "mine.py").write_text(text)
    solution = solution_of(str(folder / "mine.py"), statement)
    [written] = solution.written(statement, [*(statement.shapes or {})], ["y"]).values()
    return written.partition("# How kernelfuzz calls it.\n")[2]


def test_room_for_an_output_is_no_input(tmp_path: Path) -> None:
    first, *_, kept = statements_of(_task(tmp_path, _SCALED))
    assert first.shapes == {"x": "rows_ n", "w": "d2"}
    assert first.data is not None
    assert first.data.words == "(x, w, {0},)"
    text = _solution(tmp_path, "def custom_kernel(data):\n    return data[0]\n", first)
    assert text.startswith("def judged(x, w, y):\n    found = custom_kernel((x, w, y,))\n")
    assert (kept.fixed, kept.kept) == ({"d2": 3}, "kept as all tests have it: d2 = 3")


@pytest.mark.parametrize("returned", ["x.sum(-1) * w.sum() + y", "x * w.sum()", "torch.softmax(y, 0) * x.sum()"])
def test_what_the_reference_reads_and_what_is_no_output_is_an_input(returned: str, tmp_path: Path) -> None:
    reference = _SCALED.replace("    y[...] = (x * w.sum()).sum(-1)\n    return y\n", f"    return {returned}\n")
    first = next(iter(statements_of(_task(tmp_path, reference))))
    assert first.shapes == {"x": "rows_ n", "w": "d2", "y": "rows_"}


def test_axes_of_one_extent_are_tried_as_in_a_product(tmp_path: Path) -> None:
    reference = (
        "import torch\n\ndef generate_input(m, k, seed):\n    return torch.ones(m, k), torch.ones(k, k)\n\n"
        "def ref_kernel(data):\n    a, b = data\n    return a @ b\n"
    )
    tests = "tests:\n  - {'m': 4, 'k': 4, 'seed': 1}\n  - {'m': 8, 'k': 8, 'seed': 1}\n"
    forms = [each.shapes for each in statements_of(_task(tmp_path, reference, tests))]
    assert {"a": "m k", "b": "k d2"} in forms


@pytest.mark.whole
def test_a_solution_writes_to_the_room_or_returns_what_it_made(cli_here: Cli, tmp_path: Path) -> None:
    task = _task(tmp_path, _SCALED)
    head = "import torch\n\n\ndef _custom_kernel(data):\n    x, w, y = data\n"
    made = "\n\n\ncustom_kernel = torch.no_grad()(_custom_kernel)\n"
    sources = {
        "writes": f"{head}    y[...] = (x * w.sum()).sum(-1)\n    return y{made}",
        "returns": f"{head}    return (x * w.sum()).sum(-1){made}",
        "neither": f"{head}    return y{made}",
    }
    assert _verdicts(cli_here, tmp_path, sources, task) == {"writes": "right", "returns": "right", "neither": "wrong"}


def _verdicts(cli_here: Cli, folder: Path, sources: Mapping[str, str], against: str) -> dict[str, str]:
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(text)
    words = ("--against", against, "--seed", "1", "--no-shrink", "--max-cases", "12", "--trusted", "--json")
    done = cli_here("judge", *(f"{name}.py" for name in sources), *words)
    assert done.stdout, done.stderr
    return {each["solution"].removesuffix(".py"): each["verdict"] for each in json.loads(done.stdout)["solutions"]}


@pytest.mark.parametrize(
    ("source", "entry", "said"),
    [
        ("import nowhere_at_all\n\ndef run(x):\n    return x\n", "a.py", "it imports nowhere_at_all, which is not in"),
        ("__global__ void run() {}\n", "a.cu", "a kernel in C or C[+][+] is declared in a pack"),
    ],
)
def test_a_solution_that_cannot_run_here_is_not_wrong(source: str, entry: str, said: str, tmp_path: Path) -> None:
    said_in = {"sources": [{"path": entry, "content": source}], "spec": {"entry_point": f"{entry}::run"}}
    (tmp_path / "mine.json").write_text(json.dumps(said_in))
    with pytest.raises(TaskError, match=said):
        solution_of(str(tmp_path / "mine.json"), Statement("it", lambda x: x))


@pytest.mark.parametrize(
    "source",
    ["try:\n    import nowhere_at_all\nexcept ImportError:\n    pass\n", "from helper import more\n", "import numpy\n"],
)
def test_what_it_can_do_without_or_brings_itself_is_no_reason(source: str, tmp_path: Path) -> None:
    sources = [{"path": "a.py", "content": f"{source}\ndef run(x):\n    return x\n"}]
    sources += [{"path": "helper.py", "content": "more = 1\n"}, {"path": "a.cu", "content": "void f() {}\n"}]
    (tmp_path / "mine.json").write_text(json.dumps({"sources": sources, "spec": {"entry_point": "a.py::run"}}))
    assert solution_of(str(tmp_path / "mine.json"), Statement("it", lambda x: x)).function == "run"


_CONFIGURED = """import torch

def forward_fn(x, w, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w

class Model(torch.nn.Module):
    def __init__(self, features: int, eps: float, kind: str = "plain"):
        super().__init__()
        assert kind == "plain"
        self.w, self.eps = torch.nn.Parameter(torch.ones(features)), eps

    def forward(self, x, fn=forward_fn):
        return fn(x, self.w, self.eps)

def get_inputs(rows: int = 4096, features: int = 8):
    return [torch.randn(rows, features).cuda()]
"""


def test_a_configuration_beside_a_module_says_what_it_is_made_with(tmp_path: Path) -> None:
    """Also without a GPU, which `get_inputs` asks for; the numbers of the configuration are made smaller."""
    (tmp_path / "func_forward.py").write_text(_CONFIGURED)
    said = {"input": {"rows": 64}, "init": {"eps": 1e-5}, "shared": {"features": 48}}
    beside = tmp_path / "config_forward.json"
    beside.write_text(json.dumps({f"single_{part}_configs": [each] for part, each in said.items()}))
    first = next(iter(statements_of(str(tmp_path / "func_forward.py"))))
    assert first.module is not None
    assert first.module.made_of[1:] == (1e-5, "plain")
    assert {*first.examples[0].values()}.isdisjoint({64, 48})
    assert first.shapes is not None
    assert first.shapes["x"].split()[1] == first.shapes["w"]
    beside.write_text("{}")
    with pytest.raises(TaskError, match=r"config_forward\.json: it is no configuration of single_input_configs"):
        next(iter(statements_of(str(tmp_path / "func_forward.py"))))


def test_a_file_may_end_with_its_tests_on_a_gpu(tmp_path: Path) -> None:
    text = "import torch\n\ndef halved(x):\n    return x / 2\n\n"
    text += "def test_halved():\n    return halved(torch.ones(2, device='cuda'))\n\nfound = test_halved()\n"
    (tmp_path / "halved.py").write_text(text)
    assert next(iter(statements_of(str(tmp_path / "halved.py")))).name == "halved"


def test_an_operation_of_torch_is_named(tmp_path: Path) -> None:
    import torch

    [statement] = statements_of("aten.add.Tensor")
    assert statement.name == "add"
    ones = torch.ones(2)
    assert torch.equal(statement.reference(self=ones, other=ones), 2 * ones)
    (tmp_path / "mine.py").write_text("def add__Tensor_kernel_impl(input, other):\n    return input + other\n")
    solution = solution_of(str(tmp_path / "mine.py"), statement, "aten.add.Tensor")
    [text] = solution.written(statement, ["self", "other"], ["y"]).values()
    assert "add__Tensor_kernel_impl(self, other)" in text
    with pytest.raises(TaskError, match="torch has no such operation"):
        next(iter(statements_of("aten.no_such.Tensor")))
