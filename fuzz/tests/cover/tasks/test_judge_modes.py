"""A module is judged in the mode in which it is constructed, and in the other one where that makes a difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import fuzz
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.bugs import causes_told
from fuzz.tasks.judge.own import in_other_mode, own_shapes, with_causes, with_mode
from fuzz.tasks.judge.ruling import SolutionRuling
from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.solution import Solution, solutions_of
from fuzz.tasks.readers.statement import Mode, Statement, modes_of
from fuzz.tests.conftest import Cli

_TASK = """import torch


class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        {made}

    def forward(self, x):
        return {found}


def get_inputs():
    return [torch.rand(6, 4)]


def get_init_inputs():
    return [4]
"""
_NORM = "self.bn = torch.nn.BatchNorm1d(n)"
_BATCH = "(x - x.mean(0)) * torch.rsqrt(x.var(0, unbiased=False) + self.bn.eps) * self.bn.weight + self.bn.bias"
_KEPT = (
    "(x - self.bn.running_mean) * torch.rsqrt(self.bn.running_var + self.bn.eps) * self.bn.weight + self.bn.bias"
)  # fmt: skip
_RIGHT = SolutionRuling("mine.py", "right", 4, 0, {}, (), "")


def _problem(folder: Path, made: str, found: str, name: str = "task.py") -> Statement:
    (folder / name).write_text(_TASK.format(made=made, found=found))
    return next(iter(statements_of(str(folder / name))))


@pytest.mark.parametrize(
    ("made", "words", "other"),
    [
        (_NORM, "in training mode, as constructed", "in eval()"),
        (f"{_NORM}; self.eval()", "in eval(), as constructed", "in training mode"),
        (f"{_NORM}; self.bn.eval()", "in training mode, as constructed", ""),
        ("self.bn = torch.nn.LayerNorm(n)", "in training mode, as constructed", ""),
        ("self.bn = torch.nn.Dropout(0.5)", "in eval()", ""),
    ],
)
def test_the_mode_is_that_of_the_constructed_module(tmp_path: Path, made: str, words: str, other: str) -> None:
    assert _problem(tmp_path, made, "self.bn(x)").modes == (words, other)


def _rulings(folder: Path, made: str, *found: str) -> list[SolutionRuling]:
    """What is said in the other mode of solutions that return this."""
    problem, files = _problem(folder, made, "self.bn(x)"), list[str]()
    for at, each in enumerate(found):
        files.append(str(folder / f"mine{at}.py"))
        Path(files[-1]).write_text(_TASK.format(made=made, found=each).replace("class Model(", "class ModelNew("))
    against = str(folder / "task.py")
    asked = Asked(tuple(files), against, None, "finite", 1, 8, 8, folder / "judged", False, (), None, None)
    solutions = solutions_of(tuple(files), problem, against)
    other = in_other_mode(asked, problem, solutions, 1, Console(quiet=True))
    return [with_mode(_RIGHT, problem, other.get(name)) for name in solutions]


def test_statistics_of_the_batch_are_wrong_in_evaluation_mode_and_stay_right(tmp_path: Path) -> None:
    batch, kept, both = _rulings(tmp_path, _NORM, _BATCH, _KEPT, f"{_BATCH} if self.training else {_KEPT}")
    assert [each.verdict for each in (batch, kept, both)] == ["right", "right", "right"]
    others = [each.other_mode.verdict for each in (batch, kept, both) if each.other_mode is not None]
    assert others == ["wrong", "right", "right"]


def test_who_is_right_in_evaluation_mode_alone_is_undecided_if_the_reference_is_random_otherwise(
    tmp_path: Path,
) -> None:
    [found] = _rulings(tmp_path, "self.bn = torch.nn.Dropout(0.5)", "x")
    assert (found.verdict, found.other_mode) == ("undecided", None)
    assert found.reason.startswith("right in eval(); in training mode, as constructed, Model draws random numbers")


def _judged(problem: Statement, made: str, found: str) -> Any:
    text = _TASK.format(made=made, found=found).replace("class Model(", "class ModelNew(")
    known: dict[str, Any] = {}
    assert problem.shapes is not None
    written = Solution("it", {"it.py": text}, "it.py", "ModelNew", "torch", ()).written(problem, [*problem.shapes], "y")
    exec(written["it.py"], known)
    return known["judged"]


def test_each_call_begins_with_the_state_after_construction(tmp_path: Path) -> None:
    """A call changes the count, of which the next call would return something else."""
    made, found = 'self.register_buffer("count", torch.zeros((), dtype=torch.int64))', "x * self.count.add_(1)"
    problem = _problem(tmp_path, made, found)
    assert "not compared: what a call leaves in count" in problem.remarks
    judged, x = _judged(problem, made, found), torch.rand(6, 4)
    for _ in range(2):
        assert (problem.reference(x=x) == x).all()
        assert (judged(x) == x).all()


def test_a_part_that_is_frozen_stays_so(tmp_path: Path) -> None:
    made = f"{_NORM}; self.bn.eval()"
    problem = _problem(tmp_path, made, "self.bn(x)")
    given = {
        name: torch.rand([problem.fixed.get(dim, 6) for dim in dims.split()])
        for name, dims in (problem.shapes or {}).items()
    }
    judged = _judged(problem, made, "self.bn(x)")
    torch.testing.assert_close(judged(**given), problem.reference(**given))


def test_what_reads_and_changes_a_weight_leaves_the_given_one_as_it_is(tmp_path: Path) -> None:
    problem = _problem(tmp_path, 'self.register_buffer("kept", torch.ones(4))', "x * self.kept.mul_(2)")
    given = {"x": torch.ones(6, 4), "kept": torch.ones(4)}
    assert (problem.reference(**given) == 2).all()
    assert (given["kept"] == 1).all()


def test_a_mode_that_the_inputs_that_come_with_a_module_do_not_allow_is_not_judged() -> None:
    mode, other = modes_of(torch.nn.BatchNorm1d(4).eval(), [torch.rand(1, 4)])
    assert (mode, other) == (Mode(), None), "in training mode it refuses a single row"


def _with_causes(folder: Path, problem: Statement, *texts: tuple[str, str]) -> list[SolutionRuling]:
    """What is said of solutions that are wrong and return this, where they are made so."""
    files = list[str]()
    for at, (made, found) in enumerate(texts):
        files.append(str(folder / f"mine{at}.py"))
        Path(files[-1]).write_text(_TASK.format(made=made, found=found).replace("class Model(", "class ModelNew("))
    against, screen = str(folder / "task.py"), Console(quiet=True)
    asked = Asked(tuple(files), against, None, "finite", 1, 8, 8, folder / "judged", False, (), None, None)
    solutions = solutions_of(tuple(files), problem, against)
    own = own_shapes(asked, problem, solutions, 1, screen)
    assert [each.verdict for each in own.values()] == ["wrong"] * len(texts)
    wrong = [replace(_RIGHT, verdict="wrong", own_shapes=each) for each in own.values()]
    return [*with_causes(asked, problem, solutions, wrong, 1, screen)]


@pytest.mark.whole
def test_who_keeps_the_weights_of_its_construction_is_told_where_it_is_right(tmp_path: Path) -> None:
    """One that is wrong in another way, and one whose weights are drawn in another order, are not."""
    made = "self.first, self.lin = torch.nn.Linear(n, 3), torch.nn.Linear(n, n)"
    found = "self.lin(self.first.bias[0] + x)"
    folded = "x @ self.kept.T + self.moved"
    keeps = "; self.kept = self.lin.weight.detach().clone()"
    moved = "; self.moved = self.lin(self.first.bias[0] + torch.zeros(n)).detach()"
    late = "self.lin, self.first = torch.nn.Linear(n, n), torch.nn.Linear(n, 3)"
    problem = _problem(tmp_path, made, found)
    rulings = _with_causes(
        tmp_path, problem,
        (made + keeps + moved, folded), (made + keeps + moved, f"{folded} * 2"), (late + keeps + moved, folded),
    )  # fmt: skip
    assert [each.one_seed.verdict for each in rulings if each.one_seed is not None] == ["right", "wrong", "wrong"]
    assert causes_told(rulings[0], "in training mode, as constructed") == [
        "  right where both are constructed from one seed and nothing is trained or loaded, as KernelBench does; "
        "wrong with other weights"
    ]
    assert causes_told(rulings[1], "in training mode, as constructed") == []


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("model", "texts", "mode"),
    [
        (_NORM, [(f"{_NORM}; self.eval()", "self.bn(x)"), (_NORM, "self.eval().bn(x)")], "in training mode"),
        (f"{_NORM}; self.eval()", [(_NORM, "self.bn(x)"), (_NORM, "self.train().bn(x)")], "in eval()"),
    ],
)
def test_who_sets_its_own_mode_is_told_where_that_alone_is_wrong(
    tmp_path: Path, model: str, texts: list[tuple[str, str]], mode: str
) -> None:
    """In its constructor or in a call, or where the reference does so and the solution does not."""
    problem = _problem(tmp_path, model, "self.bn(x)")
    *alone, twice, random = _with_causes(
        tmp_path, problem, *texts, (texts[0][0], "self.bn(x) * 2"), (_NORM, f"self.bn(x) + {_KEPT} * 0.1"),
    )  # fmt: skip
    told = [f"  right if it is kept {mode}, as Model is: only its mode is wrong"]
    assert [causes_told(each, f"{mode}, as constructed") for each in alone] == [told, told]
    assert causes_told(twice, mode) == causes_told(random, mode) == [], "it is wrong in either mode"


@pytest.mark.whole
def test_both_modes_are_told(cli_here: Cli, tmp_path: Path) -> None:
    _problem(tmp_path, _NORM, "self.bn(x)")
    text = _TASK.format(made=_NORM, found=_BATCH).replace("class Model(", "class ModelNew(")
    (tmp_path / "batch.py").write_text(text)
    words = ("judge", "batch.py", "--against", "task.py", "--seed", "1", "--trusted", "--max-cases", "8")
    done = cli_here(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right in training mode, as constructed; wrong in eval(): " in done.stdout
    assert "not compared: what a call leaves in bn.running_mean, bn.running_var, bn.num" in done.stdout
    ruling = json.loads(cli_here(*words, "--json").stdout)
    assert (ruling["mode"], ruling["other_mode"]) == ("in training mode, as constructed", "in eval()")
    assert ruling["solutions"][0]["other_mode"]["verdict"] == "wrong"


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, n: int) -> None:
        super().__init__()
        self.bn, self.drop = torch.nn.BatchNorm1d(n), torch.nn.Dropout(0.0)

    def forward(self, x: Any) -> Any:
        return self.drop(self.bn(x))


class Kept(Model):
    """It uses the statistics that were kept."""

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.batch_norm(
            x, self.bn.running_mean, self.bn.running_var, self.bn.weight, self.bn.bias
        )


class Dropping(Model):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.drop.p = 0.5


def _check(mine: Any, model: Any) -> None:
    fuzz.check_module(mine, model, lambda: [torch.rand(8, 24)], lambda: [24], max_cases=8, seed=1)


def test_a_check_keeps_the_mode_of_what_it_constructs(capsys: pytest.CaptureFixture[str]) -> None:
    _check(Model, Model)
    assert "evaluation mode" in capsys.readouterr().err
    with pytest.raises(fuzz.CheckError, match=r"Dropping draws random numbers in training mode, as constructed"):
        _check(Model, Dropping)


@pytest.mark.whole
def test_a_check_finds_who_is_right_in_the_other_mode_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path, explain_s=1e-3))
    with pytest.raises(fuzz.CheckFailed):
        _check(Kept, Model)
    _check(lambda n: Kept(n).eval(), lambda n: Model(n).eval())
