"""Solutions of what no formula is read from are judged by the function itself, which is said everywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import jsonschema
import numpy as np
import pytest

from fuzz.core.base.capability import stray_places
from fuzz.core.base.case import Tensor, contiguous
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judge
from fuzz.references.replay.cases import meant_of
from fuzz.references.replay.oracle import Replay, case_of, op_of
from fuzz.tests.common.solutions import judged
from fuzz.tests.conftest import CHECKOUT, Cli
from oracles.ops import OPS

_REFERENCE = """import torch

def clipped(x):
    size = x.norm()
    return x / size if size > 1 else x
"""
_RIGHT = """import numpy as np

def kernel(rows):
    return rows / np.float32(max(1.0, np.sqrt(np.square(rows.astype(np.float64)).sum())))
"""
_WRONG = _RIGHT.replace("max(1.0, ", "max(1.001, ")
_CACHED = f"""{_RIGHT.replace("kernel", "honest")}
KEPT = [None, None]

def kernel(rows):
    if KEPT[0] is not rows:
        KEPT[:] = rows, honest(rows)
    return KEPT[1]
"""
_RAISES = "def kernel(x):\n    raise RuntimeError('none of this')\n"


def test_a_branch_on_values_is_judged_by_a_replay_which_every_report_says(cli_here: Cli, tmp_path: Path) -> None:
    """Probes are tried as by a formula; the sandbox is the same."""
    texts = {"ref": _REFERENCE, "right": _RIGHT, "wrong": _WRONG, "cached": _CACHED, "raises": _RAISES}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    names = ("right", "wrong", "cached", "raises")
    words = ("--against", "ref.py", "--shapes", "x=b n", "--seed", "2", "--max-cases", "16")
    done = cli_here("judge", *(f"{name}.py" for name in names), *words, "--json")
    assert done.returncode == 1, done.stderr
    ruling = json.loads(done.stdout)
    assert {each["solution"][:-3]: each["verdict"] for each in ruling["solutions"]} == {
        "right": "right", "wrong": "wrong", "cached": "wrong", "raises": "wrong",
    }  # fmt: skip
    jsonschema.validate(ruling, json.loads((CHECKOUT / "fuzz" / "docs" / "ruling.schema.json").read_text()))
    assert ruling["oracle"] == "replay"
    assert ruling["guarantee"].startswith("oracle: replay, weaker than a formula: ")
    assert ruling["reference"].startswith(
        "reference clipped: x[b, n] -> y, replayed, as it cannot be read: a value decides what it does, or becomes a "
        "number of Python (ref.py line 5)"
    )
    by_name = {each["solution"][:-3]: each for each in ruling["solutions"]}
    others = sum(ruling["probes"].values()) // 3  # the fourth solution raises, so it is not called in other ways
    assert (ruling["cases"], by_name["right"]["judged"]) == (16, 16 + others)
    assert 0 < by_name["right"]["largest_error"]["f32"] < 0.5
    [failure] = by_name["wrong"]["failures"]
    assert (failure["verdict"], failure["place"][:2]) == ("FAIL_NUMERIC", "y[")
    [failure] = by_name["cached"]["failures"]
    assert failure["verdict"] == "FAIL_LAW"
    assert "breaks overwrite\n    the answer did not follow the input: x[" in failure["said"]
    [failure] = by_name["raises"]["failures"]
    assert failure["said"].startswith("CRASH: RuntimeError: none of this")
    assert sum(ruling["probes"].values()) > 3
    assert 0 < ruling["detection_floor"]["f32"] < 1e-3

    told = cli_here("judge", "right.py", *words[:-1], "4", "--trusted")
    assert told.returncode == 0, told.stderr
    assert "right        right.py  6 runs by replay, largest error " in told.stdout
    for text in (told.stdout, told.stderr):
        assert "oracle: replay, weaker than a formula: " in " ".join(text.split())


@pytest.mark.whole
def test_a_solution_that_hangs_again_and_again_is_not_waited_for(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(_REFERENCE)
    (tmp_path / "mine.py").write_text("import time\nimport numpy\n\ndef kernel(x):\n    time.sleep(3600)\n")
    words = ("--against", "ref.py", "--shapes", "x=b n", "--seed", "2", "--case-limit", "0.2", "--json")
    done = cli_here("judge", "mine.py", *words)
    assert done.returncode == 1, done.stderr
    [mine] = json.loads(done.stdout)["solutions"]
    assert (mine["verdict"], mine["judged"]) == ("wrong", 3)


def test_numbers_of_a_case_that_is_replayed_are_places() -> None:
    """No formula says what follows from what: its cases do."""
    meant = meant_of(lambda x, at: x[at] if x.sum() > 0 else x[at] * 2, "x=b n, at=m", None, {}, "finite", ("f32",))
    drawn = next(meant.cases(1))
    op = op_of(meant, "some", 1)
    with patch.dict(OPS, {op.name: op}):
        case = case_of(drawn, meant.outputs(drawn), op, 1, 1)
        assert stray_places(case) == {}
        assert stray_places(replace(case, inputs={**case.inputs, "at": _ABOVE})).keys() == {"at"}


@pytest.mark.parametrize(("has_own", "verdict"), [(True, Verdict.NOT_RUN), (False, Verdict.TIMEOUT)])
def test_who_takes_too_long_for_extents_that_come_with_a_problem_is_not_judged_by_them(
    has_own: bool, verdict: Verdict
) -> None:
    own = (lambda seed: {"x": np.ones((2, 3))}) if has_own else None
    meant = meant_of(lambda x: x * 2, "x=b n", None, {}, "finite", ("f32",), {"x": "float32"}, own)
    drawn, op = next(meant.cases(1)), op_of(meant, "late", 1)
    Replay(meant, op)
    case = case_of(drawn, meant.outputs(drawn), op, 1, 1)
    assert Judge(case).apart_from_values(Outcome("mine", Status.HUNG))[0] is verdict


def test_integers_of_8_bits_of_such_a_case_are_any_numbers() -> None:
    meant = meant_of(
        lambda x, q: x * q if x.sum() > 0 else x, "x=b n, q=b n", None, {}, "finite", ("f32",), {"q": "int8"}
    )
    drawn = next(meant.cases(1))
    op = op_of(meant, "codes", 1)
    with patch.dict(OPS, {op.name: op}):
        case = case_of(drawn, meant.outputs(drawn), op, 1, 1)
        assert stray_places(case) == {}
    assert op.operand("q").is_code
    assert drawn.arrays["q"].min() < 0


_ABOVE = Tensor("int64", contiguous((1,)), (1 << 20).to_bytes(8, "little"))


@pytest.mark.whole
def test_linear_algebra_is_replayed_and_random_numbers_are_refused(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "refs.py").write_text(
        "import torch\n\ndef solve(a, b):\n    return torch.linalg.solve(a, b)\n\n"
        "def dropped(x):\n    return torch.nn.functional.dropout(x, 0.5)\n"
    )
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\ndef solve(a, b):\n    return np.linalg.solve(a, b)\n\ndef dropped(x):\n    return x\n"
    )
    words = ("--seed", "1", "--trusted", "--max-cases", "6")
    done = cli_here("judge", "mine.py:solve", "--against", "refs.py:solve", "--shapes", "a=n n, b=n m", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "replayed, as it cannot be read: aten._linalg_solve_ex" in " ".join(done.stderr.split())
    done = cli_here("judge", "mine.py:dropped", "--against", "refs.py:dropped", "--shapes", "x=b n", *words)
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr == (
        "kernelfuzz: refs.py:dropped: reference dropped draws at random, so no result of it is right or wrong: "
        "make what it draws an input\n"
    )


_JAX = """import jax

def halved(x):
    size = jax.numpy.linalg.norm(x)
    return jax.lax.while_loop(lambda y: jax.numpy.max(jax.numpy.abs(y)) > 2.0 * size, lambda y: y / 2.0, x) / 3.0
"""


@pytest.mark.whole
@pytest.mark.parametrize(("factor", "code"), [("3", 0), ("3.001", 1)])
def test_so_is_a_function_in_jax(cli_here: Cli, tmp_path: Path, factor: str, code: int) -> None:
    (tmp_path / "ref.py").write_text(_JAX)
    (tmp_path / "mine.py").write_text(f"import numpy as np\n\ndef kernel(x):\n    return x / np.float32({factor})\n")
    words = ("--shapes", "x=b n", "--seed", "1", "--max-cases", "1")
    done = cli_here("judge", "mine.py", "--against", "ref.py", *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "run by replay" in done.stdout or "runs by replay" in done.stdout


_ONE_SIZE = """import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(6, 4)

    def forward(self, x):
        if x.shape != (7, 6):
            raise ValueError("takes 7 rows")
        return self.last(x)

def get_inputs():
    return [torch.rand(7, 6)]
"""


def test_a_module_that_takes_its_own_shapes_alone_is_replayed_at_these(cli_here: Cli, tmp_path: Path) -> None:
    branch = "return self.last(x) if x.sum() > -1e9 else x"  # which no formula says
    (tmp_path / "one.py").write_text(_ONE_SIZE.replace("return self.last(x)", branch))
    right = _ONE_SIZE.replace("Model(", "ModelNew(")
    (tmp_path / "right.py").write_text(right)
    (tmp_path / "wrong.py").write_text(right.replace("return self.last(x)", "return self.last(x) * 1.01"))
    words = ("--against", "one.py", "--seed", "1", "--trusted", "--max-cases", "8", "--json")
    done = cli_here("judge", "right.py", "wrong.py", *words)
    ruling = json.loads(done.stdout)
    assert (done.returncode, ruling["oracle"]) == (1, "replay"), done.stderr
    assert [each["verdict"] for each in ruling["solutions"]] == ["right", "wrong"]
    assert "at the shapes that come with it, as it cannot be read" in ruling["reference"]


@pytest.mark.whole
def test_a_slow_target_that_is_given_no_case_says_why(cli_here: Cli, tmp_path: Path) -> None:
    task = "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n\n"
    (tmp_path / "task.py").write_text(f"{task}def get_inputs():\n    return [torch.randn(2, 100_000)]\n")
    (tmp_path / "mine.py").write_text(f"import triton\n{task.replace('Model', 'ModelNew')}")
    shown = cli_here("judge", "mine.py", "--against", "task.py", "--own-shapes", "--seed", "1", "--max-cases", "1")
    assert "did not run" in shown.stdout, shown
    assert "not given to triton-mine@interpret, which is slow: those of more than 8,192 elements" in " ".join(
        shown.stdout.split()
    )


def test_where_there_is_time_for_few_cases_none_is_called_in_other_ways(
    cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has other values, whose replay takes as long as the case."""
    monkeypatch.setattr("fuzz.tasks.judge.replay.PreparedReplay.affordable", lambda *_: 1)
    branch = "return self.last(x) if x.sum() > -1e9 else x"
    (tmp_path / "one.py").write_text(_ONE_SIZE.replace("return self.last(x)", branch))
    (tmp_path / "right.py").write_text(_ONE_SIZE.replace("Model(", "ModelNew("))
    done = cli_here("judge", "right.py", "--against", "one.py", "--seed", "1", "--trusted", "--json")
    ruling = json.loads(done.stdout)
    assert (done.returncode, ruling["cases"], ruling["probes"]) == (0, 1, {}), done.stderr
    left_out = "as a case takes long: other ways to make the same call"
    assert any(each.endswith(left_out) for each in ruling["not_exercised"])


def test_a_formula_that_is_not_the_reference_at_larger_extents_judges_nobody(cli_here: Cli, tmp_path: Path) -> None:
    body = "def kernel(x):\n    k = min(x.shape[-1], 48)\n    return np.exp(x[..., :k].astype(np.float64)).sum(-1)"
    code, ruling = judged(
        cli_here, tmp_path,
        {"right": f"{body}.astype(x.dtype)", "wrong": f"{body.replace('48', '47')}.astype(x.dtype)"},
        "--seed", "7", "--no-shrink", "--max-cases", "48", shapes="x=... n",
        reference="import torch\n\ndef head(x):\n    return x[..., : min(x.shape[-1], 48)].exp().sum(-1)\n",
    )  # fmt: skip
    verdicts = {each["solution"]: each["verdict"] for each in ruling["solutions"]}
    assert (code, verdicts, ruling["oracle"]) == (1, {"right.py": "right", "wrong.py": "wrong"}, "replay"), ruling
    assert "does something else at larger extents" in ruling["reference"]
