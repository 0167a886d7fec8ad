"""Networks that take long are judged by what there is time for: a small batch, few cases, and no second reading."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from fuzz.campaign.search.stopping import Interruption
from fuzz.references.replay.cases import meant_of
from fuzz.references.replay.oracle import op_of
from fuzz.references.rerun import FINE, RUNS, Ways
from fuzz.tasks.judge import judging, own
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.judging import read_statement
from fuzz.tasks.judge.own import own_statement
from fuzz.tasks.judge.replay import PreparedReplay, ReplayJudge, menus_of
from fuzz.tasks.judge.ruling import JudgeView, SolutionRuling
from fuzz.tasks.readers.formats import statements_of
from fuzz.tasks.readers.statement import Statement, UnreadStatementError

_MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = {norm}

    def forward(self, x):
        return {result}

batch_size = 4096

def get_inputs():
    return [torch.rand(batch_size, 24)]
"""


_ONE_SIZE = "self.norm(x) if x.shape[1] == 24 else x[:, :, 0]"  # which raises


def _model(tmp_path: Path, result: str = _ONE_SIZE, norm: str = "torch.nn.Identity()") -> str:
    (tmp_path / "model.py").write_text(_MODEL.format(result=result, norm=norm))
    return str(tmp_path / "model.py")


def _asked(tmp_path: Path, replays: int = 48) -> Asked:
    return Asked((), str(tmp_path / "model.py"), None, "finite", 1, 8, replays, tmp_path, False, (), None, None)


def test_a_network_of_one_image_size_is_read_with_a_small_batch(tmp_path: Path) -> None:
    problem = next(statements_of(_model(tmp_path)))
    assert problem.examples == ({"d0": 5, "d1": 24},)


@pytest.mark.parametrize(("norm", "batch"), [("torch.nn.Identity()", 1), ("torch.nn.BatchNorm1d(24)", 2)])
def test_a_batch_is_smaller_where_a_call_takes_long_as_far_as_the_reference_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, norm: str, batch: int
) -> None:
    """A norm over the batch needs several rows."""
    path = _model(tmp_path, norm=norm)
    assert own_statement(path).changed == ""
    monkeypatch.setattr(own, "_CALL_S", 0.0)
    assert own_statement(path).changed == f"batch_size = {batch}, as more takes too long"


def test_a_network_with_a_weight_too_large_for_a_case_keeps_those_of_one_seed(tmp_path: Path) -> None:
    """As AlexNet has: it was not judged at all."""
    problem = own_statement(_model(tmp_path, norm="torch.nn.Linear(24, 200_000)"))
    assert problem.module is not None
    assert (problem.module.one_seed, [*(problem.shapes or ())]) == (True, ["x"])
    assert problem.changed == "batch_size = 4, as more takes too long"


def test_own_shapes_are_those_of_a_model_whose_arguments_have_an_empty_dict_beside_them(tmp_path: Path) -> None:
    """A `Model` was given both, so how large its tensors are was said not to be known."""
    path = _model(tmp_path, "self.norm(x)", "torch.nn.Linear(n, n)")
    text = (tmp_path / "model.py").read_text().replace("def __init__(self)", "def __init__(self, n)")
    (tmp_path / "model.py").write_text(f"{text}\n\ndef get_init_inputs():\n    return [[24], {{}}]\n")
    assert own_statement(path).shapes == {"x": "d0 d1", "norm_weight": "d1 d2", "norm_bias": "d1"}


def test_cases_are_counted_by_what_a_replay_that_rounds_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain call takes far less."""
    now = [0.0]

    def noisy(*_: Any) -> list[Any]:
        now[0] += 1.0
        return []

    meant: Any = SimpleNamespace(
        cases=lambda seed: iter([SimpleNamespace(arrays={})]), outputs=lambda case: {},
        ways=Ways(lambda _: [], lambda _: [], noisy, lambda _: None),
    )  # fmt: skip
    monkeypatch.setattr("fuzz.references.rerun.time.process_time", lambda: now[0])
    asked = _asked(tmp_path)
    op: Any = None
    replay = PreparedReplay(asked, meant, op, {}, tmp_path, ())
    assert replay.affordable(1) == int(asked.replay_s / (RUNS + FINE)) == 3


def test_no_case_is_begun_after_the_time_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meant = meant_of(lambda x: x * 2, "x=b n", None, {}, "finite", ("f32",))
    op = op_of(meant, "it", 1)
    replay, seconds = PreparedReplay(_asked(tmp_path), meant, op, {}, tmp_path, ()), count()
    assert replay.run(20, 1, (), Console(quiet=True))[1].replay.cases == 20
    monkeypatch.setattr("fuzz.tasks.judge.replay.time.process_time", lambda: float(next(seconds)))
    assert replay.run(20, 1, (), Console(quiet=True), 1.5)[1].replay.cases == 1


def test_a_quarter_of_the_time_of_a_replay_is_enough_for_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix product of 4096 by 4096 was undecided with any limit of time: a case takes ten seconds."""
    meant = meant_of(lambda x: x * 2, "x=b n", None, {}, "finite", ("f32",))
    asked, seconds, view = _asked(tmp_path), count(), JudgeView(Console(quiet=True), 80, False)
    replay = PreparedReplay(replace(asked, replays=2), meant, op_of(meant, "it", 1), {}, tmp_path, ())
    monkeypatch.setattr("fuzz.tasks.judge.replay.time.process_time", lambda: float(next(seconds)))
    found = ReplayJudge(Statement("it", lambda x: x), "", replay).run(1, view, Interruption())
    assert (found.cases, found.spent_s > 0.0) == (2, True)
    for judged, spent, enough in ((2, 15.0, True), (2, 14.0, False), (0, 15.0, False)):
        mine = SolutionRuling("mine.py", "right", judged, 0, {}, (), "")
        each = replace(found, spent_s=spent, rulings={"mine": mine})
        assert each.is_enough(asked, own=False) == enough
    assert not replace(each, cases=1, guarantee="").is_enough(asked, own=False)


def test_a_task_whose_smallest_case_is_too_large_for_a_formula_is_replayed(tmp_path: Path) -> None:
    """To read it took 20 s, and then no case came to an end."""
    axes = {"M": {"type": "var"}, **{dim: {"type": "const", "value": 4096} for dim in "NK"}}
    inputs = {name: {"shape": list(dims), "dtype": "float16"} for name, dims in (("a", "MK"), ("b", "NK"))}
    outputs = {"y": {"shape": ["M", "N"], "dtype": "float16"}}
    said = {"name": "gemm", "axes": axes, "inputs": inputs, "outputs": outputs}
    (tmp_path / "gemm.json").write_text(json.dumps({**said, "reference": "def run(a, b): return a @ b.T"}))
    with pytest.raises(UnreadStatementError, match="it has a tensor of 16,777,216 elements") as refused:
        read_statement(replace(_asked(tmp_path), against=str(tmp_path / "gemm.json")))
    assert refused.value.statement.fixed == {"n": 4096, "k": 4096}


def test_more_time_is_taken_for_more_cases_alone(tmp_path: Path) -> None:
    assert [_asked(tmp_path, replays).replay_s for replays in (8, 48, 480)] == [60.0, 60.0, 600.0]


def test_an_operation_without_a_formula_is_met_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other extents would not give it one."""
    tried = list[object]()

    def noted(problem: Any, *given: Any, **named: Any) -> Any:
        tried.append(problem)
        return found(problem, *given, **named)

    found = judging.derived  # type: ignore[attr-defined]
    monkeypatch.setattr(judging, "derived", noted)
    _model(tmp_path, "torch.special.zeta(x + 2, x + 3)")
    with pytest.raises(UnreadStatementError, match=r"aten.special_zeta .* has no formula"):
        read_statement(_asked(tmp_path))
    assert len(tried) == 1


def test_variances_that_a_norm_keeps_are_drawn_positive_for_a_replay(tmp_path: Path) -> None:
    """In evaluation mode it would return NaN otherwise, which decides nothing."""
    problem = next(statements_of(_model(tmp_path, norm="torch.nn.BatchNorm1d(24)")))
    meant = meant_of(
        problem.reference, problem.shapes, {}, problem.fixed, menus_of(problem, "finite"), ("f32",), problem.dtypes
    )  # fmt: skip
    cases = [case.arrays for case, _ in zip(meant.cases(1), range(8), strict=False)]
    assert all((case["norm_running_var"] > 0).all() for case in cases)
    assert any((case["norm_weight"] < 0).any() for case in cases)
