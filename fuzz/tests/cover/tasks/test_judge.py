"""Solutions are judged by a function that says what they should compute, as others' formats have both."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from fuzz.core.adapters.pack import load
from fuzz.references.dims import shapes_text
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.formula import command_of
from fuzz.tasks.judge.judging import unless_changed
from fuzz.tasks.judge.own import own_statement, shapes_of
from fuzz.tasks.judge.ruling import SolutionRuling, schema
from fuzz.tasks.judge.written import derived, write_pack, write_solutions
from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.solution import solution_of
from fuzz.tasks.readers.source import TaskError, executed
from fuzz.tasks.readers.statement import Statement
from fuzz.tests.common.solutions import CHEATS, HONEST, judged
from fuzz.tests.conftest import CHECKOUT, Cli

PUBLISHED = CHECKOUT / "fuzz" / "docs" / "ruling.schema.json"


def test_what_is_right_is_right_and_what_is_not_is_wrong(cli_here: Cli, tmp_path: Path) -> None:
    """Parameters of other names are not held against one. All cheats are tried at night."""
    code, ruling = judged(
        cli_here,
        tmp_path,
        {"right": HONEST["right"], "zeros": CHEATS["zeros"]},
        "--seed",
        "7",
        "--no-shrink",
        "--max-cases",
        "6",
    )
    assert {each["solution"]: each["verdict"] for each in ruling["solutions"]} == {
        "right.py": "right", "zeros.py": "wrong",
    }  # fmt: skip
    assert (code, ruling["verdict"]) == (1, "wrong")
    assert ruling["solutions"][0]["judged"] == 6
    [measured] = next(each["measured"] for each in ruling["solutions"] if each["solution"] == "right.py")
    assert [(each["along"], each["terms"]) for each in measured["sums"]] == [("n", 1031)]
    assert measured["repeats"]
    [accepts] = next(each["accepts"] for each in ruling["solutions"] if each["solution"] == "right.py")
    assert accepts["layouts"]["transposed"] == "right"
    assert ruling["reference"].startswith("reference normalised: x[..., n], w[n] -> y[..., n], 6 operations")
    assert 1e-8 < ruling["detection_floor"]["f32"] < 1e-4
    jsonschema.validate(ruling, json.loads(PUBLISHED.read_text()))


def test_the_schema_is_published() -> None:
    assert json.loads(PUBLISHED.read_text()) == schema(), (
        "write it again: python3 -m fuzz.tasks.judge.ruling > fuzz/docs/ruling.schema.json, and raise VERSION"
    )


_MODEL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, input):
        return torch.relu(self.linear(input)) / 2.0

batch_size, in_features, out_features = 64, 96, 160

def get_inputs():
    return [torch.rand(batch_size, in_features)]

def get_init_inputs():
    return [in_features, out_features]
"""


def _new(end: str) -> str:
    return _MODEL.replace("class Model(", "class ModelNew(").replace("/ 2.0", end)


@pytest.mark.whole
def test_a_solution_may_be_judged_at_the_shapes_of_its_task_alone(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(_MODEL)
    (tmp_path / "hard.py").write_text(_new("* (input.shape[0] / 128)"))
    (tmp_path / "there.py").write_text(_new("* (0.6 if input.shape[0] == 64 else 0.5)"))
    words = ("--against", "model.py", "--seed", "1", "--no-shrink", "--trusted", "--max-cases", "8", "--json")
    done = cli_here("judge", "hard.py", *words, "--own-shapes")
    ruling = json.loads(done.stdout)
    assert (done.returncode, ruling["verdict"], ruling["oracle"]) == (0, "right", "replay"), done.stderr
    assert ruling["cases"] == 8 <= ruling["solutions"][0]["judged"], "some are called in another way, too"
    done = cli_here("judge", "there.py", *words)
    [ruled] = json.loads(done.stdout)["solutions"]
    assert (done.returncode, ruled["verdict"], ruled["failing"]) == (1, "wrong", 0), done.stderr
    assert (ruled["own_shapes"]["verdict"], ruled["own_shapes"]["shapes"]) == ("wrong", {"input_": [64, 96]})
    assert [(each["verdict"], each["failure"]) for each in ruled["bugs"]] == [("FAIL_NUMERIC", None)]
    assert ruled["score"] == 0.5, "it passes all that was searched, and is wrong"


def test_what_is_typed_for_more_time_judges_the_same() -> None:
    asked = Asked(
        ("a.py", "b.py:f"), "ref.py", "x=b n, eps=1e-5", "any", None, 300, 48, Path("judged"), False, ("torch@*",),
        None, 20.0,
    )  # fmt: skip
    typed = shlex.split(command_of(asked, 7))
    assert (typed[:4], typed[-1]) == (["kernelfuzz", "judge", "a.py", "b.py:f"], "--trusted")
    assert {name: value for name, value in pairwise(typed) if name.startswith("--")} == {
        "--against": "ref.py", "--shapes": "x=b n, eps=1e-5", "--values": "any", "--target": "torch@*", "--seed": "7",
        "--max-cases": "300", "--output": "judged",
    }  # fmt: skip


def test_a_task_without_shapes_or_with_large_ones_is_told_from_others(tmp_path: Path) -> None:
    plain, large = tmp_path / "plain.py", tmp_path / "large.py"
    plain.write_text("def ref(x):\n    return x\n")
    large.write_text(_MODEL.replace("64, 96, 160", "1 << 20, 96, 160"))  # which is no number to be made smaller
    with pytest.raises(TaskError, match="no shapes come with it"):
        own_statement(str(plain))
    with pytest.raises(TaskError, match="a tensor is 1048576x160, and one of more than 4,194,304"):
        own_statement(str(large))


_ONE_SIZE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        if x.shape[1] != 24:
            raise ValueError("rows have 24 elements")
        return x.tanh()

def get_inputs():
    return [torch.rand(6, 24)]
"""


def test_extents_of_which_a_module_takes_no_others_are_kept_and_told(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(_ONE_SIZE)
    kept = [each for each in statements_of(str(tmp_path / "model.py")) if each.kept]
    assert (kept[0].fixed, kept[0].examples) == ({"d1": 24}, ({"d0": 6},))
    assert kept[0].kept == "kept as get_inputs() has them, as Model refuses others: d1 = 24"
    assert derived(kept[0], "finite").op.fixed == {"d1": 24}


def test_a_line_names_the_first_tensors_of_a_network_and_counts_the_others() -> None:
    shapes = {"x": (2, 3), **{f"weight{at}": (4,) for at in range(200)}}
    assert shapes_text(shapes).startswith("x[2, 3], weight0[4], ")
    assert shapes_text(shapes).endswith("weight4[4] and 195 more tensors")
    assert shapes_text({"x": (2, 3)}) == "x[2, 3]"


def test_a_module_that_makes_numbers_of_tensors_has_shapes_too(tmp_path: Path) -> None:
    """As Swin does of a linspace: that cannot be without making the tensors."""
    path = tmp_path / "model.py"
    path.write_text(_MODEL.replace("nn.Linear(in_features", "nn.Linear(int(torch.tensor(in_features).item())"))
    assert shapes_of(executed(path, path.read_text())) == ([(64, 96)], [(160, 96), (160,)])


def test_a_batch_is_smaller_where_tensors_would_be_too_large_and_no_larger_than_enough(tmp_path: Path) -> None:
    path, names = tmp_path / "model.py", "batch_size, in_features, out_features = 64, 96, 160"
    path.write_text(_MODEL.replace(names, "batch_size = 4096\nin_features, out_features = 65536, 2"))
    own = own_statement(str(path))
    assert (own.changed, own.own(1)["input_"].shape) == (  # type: ignore[misc]
        "batch_size = 16, as more takes too long", (16, 65536),
    )  # fmt: skip


def test_who_fails_with_a_smaller_batch_alone_is_undecided() -> None:
    """The batch of the task itself was not tried."""
    wrong = SolutionRuling("mine.py", "wrong", 4, 4, {}, (), "")
    problem = Statement("it", lambda x: x)
    assert unless_changed(wrong, problem) == wrong
    found = unless_changed(wrong, replace(problem, changed="batch_size = 2"))
    assert (found.verdict, found.reason) == ("undecided", "it fails, but at none of the task's shapes: batch_size = 2")


def test_weights_that_are_alike_are_moved(tmp_path: Path) -> None:
    """Else a solution that leaves them out would be right at the task's own shapes."""
    path = tmp_path / "model.py"
    made = "nn.LayerNorm(96); self.scale = nn.Parameter(torch.tensor(2.0))"
    path.write_text(_MODEL.replace("nn.Linear(in_features, out_features)", made))
    own = own_statement(str(path)).own
    assert own is not None
    one, again, other = own(1), own(1), own(2)
    assert len({*one["linear_weight"]}) > 1
    assert (one["scale"].shape, one["scale"] != 2.0) == ((), True), "a number has no dimension"
    assert (one["input_"] == again["input_"]).all()
    assert (one["input_"] != other["input_"]).any()


@pytest.mark.whole
@pytest.mark.parametrize("solution", ["right", "wrong"])
def test_a_module_is_judged_by_a_module_with_its_weights(cli_here: Cli, tmp_path: Path, solution: str) -> None:
    """Large numbers become small ones; weights are given by their names; another batch is tried. The task's own shapes
    are tried too, and told apart."""
    (tmp_path / "model.py").write_text(_MODEL)
    text = _new("* 0.5")
    text = text.replace("torch.relu(", "torch.relu(self.linear.bias - ") if solution == "wrong" else text
    (tmp_path / f"{solution}.py").write_text(text)
    (tmp_path / "hard.py").write_text(_new("* (input.shape[0] / 128)"))
    words = ("--against", "model.py", "--seed", "1", "--no-shrink", "--trusted", "--max-cases", "8")
    done = cli_here("judge", f"{solution}.py", "hard.py", *words)
    assert done.returncode == 1, done.stderr
    # On a machine with a GPU it runs there too.
    assert re.search(rf"(^|\n){solution} +{solution}\.py +\d+ ", done.stdout)
    own = re.findall(r"(right|wrong) at the task's own shapes \(input_ 64x96\): 5 of 5 runs, by replay", done.stdout)
    assert own == [solution, "right"], done.stdout
    assert "the shapes that it fails at are the judge's" in done.stdout.partition("wrong        hard.py")[2]
    pack = (tmp_path / "judged" / "model" / "pack.py").read_text()
    assert 'f.dot(input_, linear_weight, "d1")' in pack
    assert 'Operand("linear_weight", "d2 d1"' in pack


@pytest.mark.whole
def test_a_function_with_the_name_of_an_op_that_there_is_is_no_clash(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text("import torch\n\ndef softmax(x):\n    return torch.softmax(x, -1)\n")
    mine = "def mine(x):\n    e = np.exp(x - x.max(-1, keepdims=True))\n    return e / e.sum(-1, keepdims=True)\n"
    mine = f"import numpy as np\n\n{mine}"
    (tmp_path / "mine.py").write_text(mine)
    done = cli_here("judge", "mine.py", "--against", "ref.py", "--no-shrink", "--trusted", "--max-cases", "12")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "judged" / "softmax" / "pack.py").read_text().count("reference_softmax") > 1


@pytest.mark.whole
def test_a_definition_in_json_is_judged_by_its_reference(cli_here: Cli, tmp_path: Path) -> None:
    """A solution that writes its output, and one that returns it. The reference calls its inputs something else."""
    definition = {
        "name": "scaled_sum", "axes": {"B": {"type": "var"}, "N": {"type": "const", "value": 24}},
        "inputs": {"x": {"shape": ["B", "N"], "dtype": "float32"}, "s": {"shape": ["N"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["B"], "dtype": "float32"}},
        "reference": "import torch\n\ndef run(rows, scales):\n    return (rows * scales).sum(-1)\n",
    }  # fmt: skip
    (tmp_path / "definition.json").write_text(json.dumps(definition))
    texts = {
        "returns": "import numpy as np\ndef run(x, s):\n    return x @ s\n",
        "writes": "import numpy as np\ndef run(x, s, y):\n    y[...] = x @ s\n",
        "late": "import numpy as np\ndef run(x, s):\n    return x[:, 1:] @ s[1:]\n",
    }
    for name, text in texts.items():
        spec = {"sources": [{"path": "main.py", "content": text}], "spec": {"entry_point": "main.py::run"}}
        (tmp_path / f"{name}.json").write_text(json.dumps(spec))
    files = [f"{name}.json" for name in texts]
    done = cli_here("judge", *files, "--against", "definition.json", "--seed", "1", "--no-shrink", "--max-cases", "12")
    assert done.returncode == 1, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("right", "wrong"))] == [
        ["right", "returns.json"], ["right", "writes.json"], ["wrong", "late.json"],
    ]  # fmt: skip


def test_a_solution_is_given_the_8_bits_that_a_definition_names(cli_here: Cli, tmp_path: Path) -> None:
    definition = {
        "name": "dequantised", "axes": {"b": {"type": "var"}, "n": {"type": "var"}},
        "inputs": {"x": {"shape": ["b", "n"], "dtype": "float8_e4m3fn"}, "s": {"shape": ["b"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["b", "n"], "dtype": "float32"}},
        "reference": "def run(x, s):\n    return x.float() * s[:, None]\n",
    }  # fmt: skip
    (tmp_path / "definition.json").write_text(json.dumps(definition))
    for name, codes in {"right": "x", "other": "x.view(torch.float8_e5m2)"}.items():
        text = f"import torch\ndef run(x, s):\n    assert x.dtype == torch.float8_e4m3fn\n    x = {codes}\n"
        (tmp_path / f"{name}.py").write_text(f"{text}    return x.float() * s[:, None]\n")
    words = ("--against", "definition.json", "--seed", "1", "--no-shrink", "--max-cases", "4", "--trusted", "--json")
    done = cli_here("judge", "right.py", "other.py", *words)
    assert done.returncode == 1, done.stderr
    assert [each["verdict"] for each in json.loads(done.stdout)["solutions"]] == ["right", "wrong"]
    decides = "def run(x, s):\n    y = x.float() * s[:, None]\n    return -y if y.norm() > 1e30 else y\n"
    (tmp_path / "definition.json").write_text(json.dumps({**definition, "reference": decides}))
    done = cli_here("judge", "right.py", *words)
    assert "x is of float8_e4m3fn, which a replay does not draw" in done.stderr


@pytest.mark.whole
def test_each_failure_is_told_once_and_what_it_says_to_type_next_works(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text("def scaled(x, w):\n    return x * w * 2\n")
    for name, wrong in {"first": "x * w * 3", "second": "x * w"}.items():
        (tmp_path / f"{name}.py").write_text(f"import numpy as np\n\ndef kernel(x, w):\n    return {wrong}\n")
    words = ("--against", "ref.py", "--shapes", "x=b n, w=n", "--seed", "1", "--trusted", "--max-cases", "16")
    done = cli_here("judge", "first.py", "second.py", *words, "--explain-time", "1s")
    assert done.returncode == 1, done.stderr
    both = done.stdout + done.stderr
    assert [len(re.findall(f"^FAIL  {name} ", both, re.MULTILINE)) for name in ("first", "second")] == [1, 1]
    assert "2 failures: 1 s of a processor at most for each cause, 3 s in all" in done.stderr
    commands = [line.partition("next: kernelfuzz ")[2] for line in done.stdout.splitlines() if "next: " in line]
    assert len(commands) == 2
    for name, command in zip(("first", "second"), sorted(commands), strict=True):
        assert len(f"  next: kernelfuzz {command}") <= 80
        again = cli_here(*shlex.split(command))
        assert (again.returncode, f"FAIL_NUMERIC  {name}  " in again.stdout) == (1, True), again.stderr
        assert again.stdout.count("FAIL  ") == 1, "the others have findings of their own"


@pytest.mark.whole
def test_what_is_not_shrunk_is_told_once_with_what_changes_about_it(cli_here: Cli, tmp_path: Path) -> None:
    """Forgetting a tail gives wrong numbers in most cases, and infinities where there is nothing but the tail: one
    kernel, wrong in one way. That no rule was sought is not told as if there were none."""
    (tmp_path / "ref.py").write_text("def mean(x):\n    return x / (x * x).mean(-1, keepdim=True).sqrt()\n")
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\ndef kernel(x):\n    n = x.shape[-1]\n    with np.errstate(all='ignore'):\n"
        "        some = x[..., : n // 4 * 4]\n"
        "        return x / np.sqrt((some * some).sum(-1, keepdims=True) / np.float32(n))\n"
    )
    words = ("--against", "ref.py", "--shapes", "x=b n", "--seed", "1", "--trusted", "--max-cases", "32", "--no-shrink")
    done = cli_here("judge", "mine.py", *words)
    assert done.returncode == 1, done.stderr
    assert len(re.findall("^FAIL  mine ", done.stdout, re.MULTILINE)) == 1
    told = " ".join(done.stdout.split())
    assert re.search(r" n = [^;]*; .*--no-shrink", told), done.stdout
    assert "no simple rule" not in told


_MARGIN = "def hinge(x, y, margin=1.0): return (margin - x * y).clamp(min=0)\n"
_MADE = "return (margin - x * y).clamp(min=0)"


@pytest.mark.parametrize(
    ("solution", "call", "written"),
    [
        (f"def kernel(x, y, margin): {_MADE}", "x=x, y=y, margin=1.0", ""),
        (f"def kernel(y, x, *, margin): {_MADE}", "x=x, y=y, margin=1.0", ""),
        (f"def kernel(x, y, margin=1.0, block=8): {_MADE}", "x=x, y=y, margin=1.0", ""),
        ("def kernel(a, b, c): return (c - a * b).clamp(min=0)", "x, y, c=1.0", ""),
        ("def kernel(x, y, margin, res): res[:] = 0", "x=x, y=y, margin=1.0, res=out", ", out"),
        ("def kernel(a, b, res): res[:] = 0; return res", "x, y, res=out", ", out"),
    ],
)  # fmt: skip
def test_a_parameter_is_an_output_only_where_nothing_is_returned(
    tmp_path: Path, solution: str, call: str, written: str
) -> None:
    (tmp_path / "ref.py").write_text(_MARGIN)
    (tmp_path / "mine.py").write_text(f"{solution}\n")
    problem = next(statements_of(str(tmp_path / "ref.py")))
    found = solution_of(str(tmp_path / "mine.py"), problem).written(problem, ["x", "y"], ["out"])["mine.py"]
    assert f"def judged(x, y{written}):" in found
    assert f"kernel({call})" in found


def test_a_parameter_that_nothing_says_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(_MARGIN)
    (tmp_path / "mine.py").write_text("def kernel(x, y, alpha):\n    return x * y * alpha\n")
    problem = next(statements_of(str(tmp_path / "ref.py")))
    said = (
        "mine.py: kernel needs alpha: no argument of the reference, which has x, y, margin, is called so, and it does "
    )
    with pytest.raises(TaskError, match=f"^{said}not write out$"):
        solution_of(str(tmp_path / "mine.py"), problem).written(problem, ["x", "y"], ["out"])


def test_what_a_solution_reads_at_home_comes_along_and_not_what_it_is_judged_by(tmp_path: Path) -> None:
    for name in ("ref.py", "other.py", "inner.py", "mine.py"):
        (tmp_path / name).write_text("def scaled(x): return x\n")
    (tmp_path / "helper.py").write_text("from inner import scaled\nTABLE = 'table.bin'\n")
    (tmp_path / "weights").mkdir()
    for name in ("table.bin", "mine.json", "secret.txt", "weights/0.bin"):
        (tmp_path / name).write_bytes(b"\xff")
    (tmp_path / "mine.py").write_text("import helper, ref\nW = 'weights/0.bin'\ndef scaled(x): return x\n")
    problem = next(statements_of(str(tmp_path / "ref.py")))
    found = solution_of(str(tmp_path / "mine.py"), problem, str(tmp_path / "ref.py:scaled"))
    write_solutions(tmp_path / "pack", problem, {"mine": found}, ["x"], ["y"])
    there = {str(path.relative_to(tmp_path / "pack" / "mine")) for path in (tmp_path / "pack").rglob("*.*")}
    assert there == {"mine.py", "helper.py", "inner.py", "table.bin", "mine.json", "weights/0.bin"}


def test_a_solution_is_in_triton_if_a_package_beside_it_is(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text("def scaled(x): return x\n")
    (tmp_path / "mine.py").write_text("import torch\nfrom blocks.deep import scaled\ndef kernel(x): return scaled(x)\n")
    (tmp_path / "blocks" / "deep").mkdir(parents=True)
    (tmp_path / "blocks" / "__init__.py").write_text("")
    problem = next(statements_of(str(tmp_path / "ref.py")))
    for text, wanted in (("import torch\n", "torch"), ("try:\n    from triton import jit\nfinally: 0\n", "triton")):
        (tmp_path / "blocks" / "deep" / "__init__.py").write_text(text)
        assert solution_of(str(tmp_path / "mine.py"), problem).framework == wanted


def test_what_was_judged_before_stays_in_the_pack(tmp_path: Path) -> None:
    """Its findings stay there, and what was said to type next is still to work."""
    (tmp_path / "ref.py").write_text("def scaled(x, w):\n    return x * w * 2\n")
    names = ("first", "second", "first")
    for name, wrong in zip(names, ("x * w", "x", "x * w * 3"), strict=True):
        (tmp_path / f"{name}.py").write_text(f"def kernel(x, w):\n    return {wrong}\n")
        problem = replace(next(statements_of(str(tmp_path / "ref.py"))), shapes={"x": "b n", "w": "n"})
        solutions = {name: solution_of(str(tmp_path / f"{name}.py"), problem)}
        found = derived(problem, "finite")
        write_pack(tmp_path / "pack", problem, solutions, found, values="finite", untrusted=False)
    assert [each.name for each in load(tmp_path / "pack").kernels] == ["second", "first"]
    write_pack(tmp_path / "pack", problem, {"other": solutions["first"]}, found, values="any", untrusted=False)
    assert [each.name for each in load(tmp_path / "pack").kernels] == ["other"], "the others were judged by less"


_TASK = """files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
tests:
  - {"m": 64, "n": 48, "seed": 1}
  - {"m": 32, "n": 40, "seed": 2}
"""
_TASK_REFERENCE = """import torch
from task import input_t
from utils import matched

def generate_input(m: int, n: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn((m, n), device="cuda", generator=gen)
    return x, torch.empty(n, device=torch.device("cuda")).uniform_(1, 2, generator=gen), 3

def ref_kernel(data: input_t) -> torch.Tensor:
    x, w, times = data
    return (x * w).sum(-1) * times

check_implementation = matched(ref_kernel)
"""
_TASK_SOLUTION = """import numpy as np
from task import input_t

def custom_kernel(data: input_t) -> np.ndarray:
    x, w, times = data
    return (x @ w) * np.float32(times)
"""


def test_a_task_is_judged_by_its_reference(cli_here: Cli, tmp_path: Path) -> None:
    """On a machine without a GPU, too; its modules are imported by solutions, and its dimensions are called as in its
    tests, whose extents are tried. Wrong solutions fail in the other tests of this file."""
    folder = tmp_path / "scaled_sum"
    folder.mkdir()
    texts = {
        "scaled_sum/task.yml": _TASK, "scaled_sum/reference.py": _TASK_REFERENCE,
        "scaled_sum/task.py": "input_t = tuple\n", "utils.py": "def matched(reference):\n    return reference\n",
        "right.py": _TASK_SOLUTION,
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    words = ("--against", "scaled_sum", "--seed", "1", "--no-shrink", "--trusted", "--max-cases", "16")
    done = cli_here("judge", "right.py", *words)
    assert done.returncode == 0, done.stderr
    assert "x[m, n], w[n] -> y[m]" in done.stderr
    assert re.search(r"^right +right.py +16 runs", done.stdout, re.MULTILINE)
    pack = (tmp_path / "judged" / "scaled_sum" / "pack.py").read_text()
    assert 'shapes=({"m": 64, "n": 48}, {"m": 32, "n": 40}),' in pack
    (folder / "task.yml").write_text("tests: []\n")
    refused = cli_here("judge", "right.py", *words)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "task.yml: it has no tests" in refused.stderr


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("solution", "reference", "said"),
    [
        ("def kernel(x):\n    return x\n", None, "ref.py: No such file or directory"),
        ("def kernel(x):\n    return x\n", "import nowhere_at_all\n", "ref.py: it has no function"),
        ("def kernel(x:\n", "def ref(x):\n    return x * 2\n", "mine.py: it is no Python: "),
        ("", "def ref(x):\n    return x * 2\n", "mine.py: it has no function"),
        ("def one(x): ...\ndef two(x): ...\n", "def ref(x):\n    return x * 2\n", "name one, mine.py:one"),
        ("def kernel(x):\n    return x\n", "def ref(x):\n    return x.cfloat()\n", "of complex64"),
        ("import torch\n", _MODEL, "mine.py: it has no class ModelNew"),
        ("def kernel(x):\n    return x\n", _MODEL, "mine.py: kernel does not take linear_weight and linear_bias: "),
        ("def kernel(x):\n    return x\n", "import sys\nsys.exit(0)\ndef ref(x): ...\n", "ref.py: SystemExit: 0"),
        ("def kernel(x):\n    return x\n", "import sys\ndef ref(x):\n    sys.exit(0)\n", "--shapes"),
        ("class ModelNew: ...\n", f"{_MODEL}\nraise SystemExit(0)\n", "ref.py: "),
        ("def kernel(x, w):\n    return x\n", "def ref(x, w):\n    return x * w\n", "--shapes 'x=b n, w=b n'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(
    cli_here: Cli, tmp_path: Path, solution: str, reference: str | None, said: str
) -> None:
    (tmp_path / "mine.py").write_text(solution)
    if reference is not None:
        (tmp_path / "ref.py").write_text(reference)
    done = cli_here("judge", "mine.py", "--against", "ref.py", "--trusted")
    assert done.returncode == 4
    [line] = done.stderr.replace("\n    ", " ").splitlines()
    assert said in line


def test_solutions_in_jax_are_judged(cli_here: Cli, tmp_path: Path) -> None:
    source = "import jax.numpy as jnp\n\ndef squares(x):\n    return jnp.sum(x * x, -1)\n"
    code, ruling = judged(
        cli_here, tmp_path, {"right": source, "wrong": source.replace("x * x", "1.001 * x * x")},
        "--seed", "7", "--no-shrink", "--max-cases", "2", "--trusted", shapes="x=m n", reference=source,
    )  # fmt: skip
    verdicts = {each["solution"]: each["verdict"] for each in ruling["solutions"]}
    assert (code, verdicts) == (1, {"right.py": "right", "wrong.py": "wrong"}), ruling
