"""What a solution refuses by itself is told as one line to declare; what merely crashes, or is refused everywhere, is
wrong or undecided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuzz.contracts.accepts import Accepts, is_few, own_refusal
from fuzz.core.base.outcome import Outcome, Status
from fuzz.tasks.judge.formula import refused_example
from fuzz.tasks.readers.statement import Statement
from fuzz.tests.conftest import Cli
from oracles.op import Op
from oracles.operand import Operand

_NORM = """import numpy as np


def kernel(x):
    n = x.shape[-1]
{}
    with np.errstate(all="ignore"):
        {}
"""
_PLAIN = "return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))"
_TEXTS = {
    "eights": _NORM.format(
        "    assert n % 8 == 0, n\n    if x.ndim != 2:\n        raise RuntimeError('rows only')\n"
        "    if n > 1500:\n        raise TypeError('rows are too long')", _PLAIN,
    ),
    "crashes": _NORM.format("    x = x.reshape(*x.shape[:-1], n // 8, 8).reshape(x.shape)", _PLAIN),
    "one": _NORM.format("    assert n == 64", _PLAIN),
}  # fmt: skip


@pytest.mark.whole
def test_what_it_refuses_by_itself_is_one_line_and_no_crash(cli_here: Cli, tmp_path: Path) -> None:
    """All are judged by matrices, as one of them takes nothing else. One that takes a single extent is not right."""
    (tmp_path / "ref.py").write_text(
        "import torch\n\ndef normed(x):\n    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)\n"
    )
    for name, text in _TEXTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    words = ("--against", "ref.py", "--seed", "1", "--trusted", "--max-cases", "32", "--no-shrink", "--json")
    done = cli_here("judge", *(f"{name}.py" for name in _TEXTS), *words)
    assert done.returncode == 1, done.stderr
    ruling = json.loads(done.stdout)
    by_name = {each["solution"][:-3]: each for each in ruling["solutions"]}
    assert {name: each["verdict"] for name, each in by_name.items()} == {
        "eights": "right", "crashes": "wrong", "one": "wrong",
    }  # fmt: skip
    assert by_name["eights"]["judged"] > 8
    assert [len(by_name[name]["failures"]) for name in _TEXTS] == [0, 1, 1], "nor is what probes do then told"
    [accepts] = by_name["eights"]["accepts"]
    assert (accepts["multiple_of"], accepts["max"]) == ({"n": 8}, {"n": 1024})
    assert accepts["refused"] == ["asserted in eights.py line 6", "raised in eights.py line 10"]
    assert (accepts["ranks"]["2"], accepts["ranks"]["3"]) == ("right", "refuses")
    assert ruling["reference"].startswith("reference normed: x[m, n] -> y[m, n]")


def test_what_comes_with_a_problem_must_be_taken() -> None:
    takes = Accepts("", "x", ("f32",), multiple_of={"n": 8}, max={"n": 64}, refused=("asserted in mine.py line 2",))
    problem = Statement("p", lambda x: x, examples=({"n": 16}, {"n": 20}))
    said = "it refuses n = 20, which comes with the problem: asserted in mine.py line 2"
    assert refused_example(takes, problem) == said
    assert refused_example(takes, Statement("p", lambda x: x, examples=({"n": 16, "m": 3},))) == ""
    assert refused_example(takes, Statement("p", lambda x: x, examples=({"n": 128},))).startswith("it refuses n = 128")


def test_what_is_right_once_and_never_again_has_a_line_too() -> None:
    """As a kernel that counts its calls: it is right with the first case, and with no number of dimensions after it."""
    none = Accepts("", "x", ("f32",), ranks={"1": "raises", "2": "wrong values"})
    assert none.text == "accepts: no number of dimensions of x that was tried (raises with 1, wrong values with 2)"


@pytest.mark.parametrize(
    ("detail", "where"),
    [
        ("AssertionError (a.py line 3: assert n % 8 == 0)", "asserted in a.py line 3"),
        ("AssertionError: n is 7 (a.py line 3: assert n % 8 == 0)", "asserted in a.py line 3"),
        ("RuntimeError: too long (a.py line 3: raise RuntimeError('too long'))", "raised in a.py line 3"),
        ("RuntimeError: shape '[2]' is invalid (a.py line 3: y = x.view(2))", ""),
        ("IndexError: out of range (a.py line 3: raise IndexError('out of range'))", ""),
    ],
)
def test_only_what_its_own_statement_raises_is_a_refusal(detail: str, where: str) -> None:
    assert own_refusal(Outcome("", Status.RAISED, detail=detail)) == where
    assert own_refusal(Outcome("", Status.DIED, detail=detail)) == ""


def test_no_case_is_made_that_there_is_no_room_for() -> None:
    """One of many elements along dimensions that are fixed was made first, shortened, and then left out."""

    def doubled(x: Any) -> dict[str, Any]:
        return {"y": x + x}

    op = Op(doubled, (Operand("x", "b c h w"),), (Operand("y", "b c h w"),), fixed={"c": 24, "h": 32, "w": 40})
    assert [size for size in (1, 48, 64, 112, 192, 256, 8192) if is_few(op, {"b": size})] == [1, 48, 64]
