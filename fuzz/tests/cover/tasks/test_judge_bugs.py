"""A ruling in JSON has an object for each bug, which an agent can act on without the text and without a case file."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fuzz
from fuzz.core.base.case import Case, contiguous
from fuzz.core.generate.search import Search
from fuzz.references.replay.cases import meant_of
from fuzz.references.replay.recipe import given
from fuzz.tasks.judge.bugs import expression_of, line_in
from fuzz.tasks.judge.ruling import schema
from fuzz.tests.common.planted import a_case
from fuzz.tests.conftest import CHECKOUT, run_cli

_REFERENCE = "def mean(x):\n    return x / (x * x).mean(-1, keepdim=True).sqrt()\n"
_TAIL = """import numpy as np


def kernel(x):
    n = x.shape[-1]
    if x.shape[:1] == (3,):
        raise RuntimeError("three is a crowd")
    with np.errstate(all="ignore"):
        some = x[..., : n // 4 * 4]
        return x / np.sqrt((some * some).sum(-1, keepdims=True) / np.float32(n))
"""
_BROKEN = "import numpy as np\nHALF = np.half_of_it\n\n\ndef kernel(x):\n    return x\n"
_UNREAD = {"late": "def kernel(x, scale):\n    return x * scale\n", "torn": "def kernel(x:\n"}
"""A solution that no argument of the reference fits, and one that is no Python."""
_NAMES = {"np": np, "fuzz": fuzz, "base64": base64, "zlib": zlib}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bugs")


@pytest.fixture(scope="module")
def rulings(folder: Path) -> tuple[dict[str, Any], str]:
    """The ruling on two wrong solutions, in JSON and in text."""
    for name, text in {"ref": _REFERENCE, "tail": _TAIL, "broken": _BROKEN, **_UNREAD}.items():
        (folder / f"{name}.py").write_text(text)
    words = ("--against", "ref.py", "--shapes", "x=b n", "--seed", "1", "--trusted", "--max-cases", "48", "--no-shrink")
    said, told = (
        run_cli(folder, "judge", "tail.py", "late.py", "torn.py", "broken.py", *words, *more)
        for more in (("--json",), ())
    )
    return json.loads(said.stdout), told.stdout


def test_each_bug_is_an_object_with_the_words_of_the_text(rulings: tuple[dict[str, Any], str]) -> None:
    ruling, text = rulings
    tail, broken, *_ = ruling["solutions"]
    seen = [(each["verdict"], each["failure"]) for each in tail["bugs"]]
    assert seen == [("FAIL_NUMERIC", 0), ("FAIL_NONFINITE", None), ("CRASH", 1)], "infinities were hidden in `beside`"
    assert tail["failures"][0]["beside"] == {"FAIL_NONFINITE": tail["bugs"][1]["runs"]}
    assert sum(each["runs"] for each in tail["bugs"]) == tail["failing"]
    for each in [tail["bugs"][0], tail["bugs"][2], *broken["bugs"]]:
        assert re.search(f"^{re.escape(each['headline'])}", text, re.MULTILINE), each
    for each in ruling["solutions"]:
        assert each["headline"] in text
    assert (ruling["exit_code"], {*ruling["seconds"]}) == (
        1, {"read", "try", "search", "exam", "explain", "replay"},
    )  # fmt: skip


def test_a_solution_that_cannot_be_read_does_not_keep_others_from_a_ruling(rulings: tuple[dict[str, Any], str]) -> None:
    """One of 64 candidates of a batch ended all."""
    *_, torn, late = rulings[0]["solutions"]
    assert [(each["solution"], each["verdict"], each["score"]) for each in (late, torn)] == [
        ("late.py", "did not run", 0.0), ("torn.py", "did not run", 0.0),
    ]  # fmt: skip
    assert "late.py: kernel needs scale" in late["reason"]
    assert "torn.py: it is no Python" in torn["reason"]


def test_the_line_of_the_solution_that_raised_is_named(rulings: tuple[dict[str, Any], str]) -> None:
    tail, broken, *_ = rulings[0]["solutions"]
    assert tail["bugs"][0]["line"] is None
    assert tail["bugs"][2]["line"] == {
        "file": "tail.py", "line": 7, "text": 'raise RuntimeError("three is a crowd")',
    }  # fmt: skip
    assert [each["line"]["text"] for each in broken["bugs"]] == ["HALF = np.half_of_it"]


def test_the_largest_error_and_the_first_failure_are_those_of_failing_runs(rulings: tuple[dict[str, Any], str]) -> None:
    tail, broken, *_ = rulings[0]["solutions"]
    assert tail["largest_error"]["f32"] is None, "infinity where none is allowed"
    assert 1 <= tail["first_failure"] < 10
    assert (broken["first_failure"], broken["score"]) == (None, 0.0)
    assert 0.0 < tail["score"] < 0.5


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_inputs_of_a_bug_can_be_made_anew_and_fail(
    rulings: tuple[dict[str, Any], str], place: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # what is drawn anew needs the pack, whose path is as it was given
    bug = rulings[0]["solutions"][0]["bugs"][place]
    made = eval(bug["inputs"], dict(_NAMES))
    names: dict[str, Any] = {}
    exec(_TAIL, names)
    if bug["verdict"] == "CRASH":
        with pytest.raises(RuntimeError, match="crowd"):
            names["kernel"](**made)
        return
    x = made["x"].astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = x / np.sqrt((x * x).mean(-1, keepdims=True))
    assert not np.allclose(names["kernel"](**made), wanted, rtol=1e-3)


def _drawn(least: int) -> tuple[Case, Search]:
    search = Search("softmax", 3)
    numbers = ((shard, search.case(shard, 1)) for shard in range(64))
    return next(made.case for _, made in numbers if made is not None and made.case.elements >= least), search


def test_long_values_are_a_recipe_and_a_seed() -> None:
    case, search = _drawn(500)
    said = expression_of([case], search, str(CHECKOUT / "kernels"))
    assert said.startswith("fuzz.drawn(")
    assert len(said) < 1000
    assert {name: each.tobytes() for name, each in eval(said, dict(_NAMES)).items()} == {
        name: each.bits for name, each in case.inputs.items()
    }


@pytest.mark.parametrize("numbers", [[1.5] * 800, [*range(12)], [np.nan] * 8, [*range(99)], [-0.0, 0.0]])
def test_other_values_are_listed_or_packed(numbers: list[float]) -> None:
    bits = np.array(numbers, "<f4").tobytes()
    made = eval(expression_of([a_case(contiguous((1, len(numbers))), bits=bits)]), dict(_NAMES))
    assert (made["x"].tobytes(), made["x"].shape) == (bits, (1, len(numbers)))
    assert made["eps"] == float(np.float32(1e-5)), "parameters are given, too"


def test_values_that_take_pages_are_those_of_the_case_before_it_was_shrunk_or_left_out() -> None:
    noise = np.random.default_rng(1).normal(size=4000).astype("<f4")
    long = a_case(contiguous((1, 4000)), bits=noise.tobytes())
    assert expression_of([long]) == ""
    assert "x" in eval(expression_of([long, a_case()]), dict(_NAMES))


def test_a_line_is_one_of_the_solution() -> None:
    files = {"mine.py": "one\n  two\n"}
    said = 'File "/usr/lib/numpy/core.py", line 2, in f; x (mine.py line 2: two); (other.py line 1: y)'
    found = line_in(said, files)
    assert found is not None
    assert (found.file, found.line, found.text) == ("mine.py", 2, "two")
    assert line_in("(mine.py line 3: gone)", files) is None


def test_the_page_has_the_exit_codes_of_the_schema() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "judging.md").read_text()
    table = page.partition("| exit code | |")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE)) == schema()["exit_codes"]


_CLIPPED = "def clipped(x):\n    size = x.norm()\n    return x / size if size > 1 else x\n"
_CLIPS = """import numpy as np


def kernel(x):
    y = x / np.float32(max(1.0, np.sqrt(np.square(x.astype(np.float64)).sum())))
    if x.shape[-1] > 40:
        y[..., -1] = 2
    return y
"""
_LINEAR = """import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.own = torch.nn.Linear(24, 16)
    def forward(self, x):
        return self.own(x)

def get_inputs():
    return [torch.randn(32, 24)]
"""


@pytest.mark.whole
def test_long_inputs_of_a_replay_are_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"clipped": _CLIPPED, "clips": _CLIPS, "linear": _LINEAR}
    texts["last"] = _LINEAR.replace("Model", "ModelNew").replace("self.own(x)", "self.own(x) * (x[:, :1] < 1)")
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    words = ("--seed", "1", "--trusted", "--json")
    by_reference = run_cli(tmp_path, "judge", "clips.py", "--against", "clipped.py", "--shapes", "x=b n", *words)
    by_module = run_cli(tmp_path, "judge", "last.py", "--against", "linear.py", "--own-shapes", *words)
    first, second = (json.loads(each.stdout)["solutions"][0]["bugs"][0]["inputs"] for each in (by_reference, by_module))
    assert re.match(r"fuzz\.drawn\('clipped\.py', \{'key': \d+, 'dtype': 'f32', 'tensors': ", first), first
    made, names = eval(first, dict(_NAMES)), dict[str, Any]()
    exec(_CLIPS, names)
    assert made["x"].shape[-1] > 40
    assert abs(names["kernel"](**made)).max() == 2
    assert re.fullmatch(r"fuzz\.drawn\('linear\.py', \{'key': \d+, 'dtype': 'f32'\}\)", second), second
    drawn = eval(second, dict(_NAMES))
    assert {name: each.shape for name, each in drawn.items()} == {
        "x": (32, 24), "own_weight": (16, 24), "own_bias": (16,),
    }  # fmt: skip


def test_integers_and_structures_of_a_replay_come_again_from_its_recipe() -> None:
    dtypes = {"x": "float32", "ids": "int64"}
    meant = meant_of(lambda x, ids: x[ids], "x=n m, ids=k", None, {}, "finite", ["bf16"], dtypes)
    meant = replace(meant, kept={"x": (("lower", ()),)}, square=(("n", "m"),))
    for case in islice(meant.cases(3), 6):
        recipe = json.loads(json.dumps(msgspec.to_builtins(case.drawn)))
        made, wanted = fuzz.drawn("", recipe), given(case.arrays, case.dtype)
        assert [(name, each.tobytes()) for name, each in made.items()] == [
            (name, each.tobytes()) for name, each in wanted.items()
        ]
        assert np.array_equal(case.arrays["x"], np.tril(case.arrays["x"]))
