"""Both tiers on random elements of every op, and whether one that is off would be noticed."""

from __future__ import annotations

import pytest

from fuzz.quality import oracle as measured
from fuzz.quality.__main__ import app
from fuzz.quality.oracle import compared
from fuzz.tests.conftest import Cli
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Exact
from oracles.ops import OPS
from oracles.ranks import RankWindow

OFF = 1.0 + 2.0**-22


@pytest.mark.some(3)
@pytest.mark.parametrize("op", OPS)
def test_the_tiers_agree(op: str) -> None:
    found = compared(OPS[op], 50, 1)
    assert found.elements >= 50
    assert found.wrong == ()
    assert found.gave_up == 0
    assert found.escalated + found.unjudged < found.elements / 3


@pytest.mark.parametrize("op", ["rms_norm", "layer_norm_backward", "softmax_backward"])
def test_an_exact_value_that_is_off_is_noticed(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    element = Exact.element
    monkeypatch.setattr(Exact, "element", lambda self, node, place: element(self, node, place) * OFF)
    assert len(compared(OPS[op], 150, 1).wrong) > 10


@pytest.mark.parametrize("op", ["topk_softmax", "softmax_of_topk"])
def test_a_place_that_is_off_is_noticed(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holds = RankWindow.holds
    monkeypatch.setattr(RankWindow, "holds", lambda self, ranks: holds(self, ranks + 1.0))
    found = compared(OPS[op], 150, 1).wrong
    assert len([each for each in found if " expert[" in each]) > 10


def test_a_function_that_is_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Float64.apply
    monkeypatch.setattr(Float64, "apply", lambda self, kind, values: apply(self, kind, values) * OFF)
    assert len(compared(OPS["layer_norm"], 150, 1).wrong) > 10


def test_the_command_says_what_it_compared(cli_here: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "BATCH", 10)
    words = ("centres", "--op", "softmax*", "--elements", "30", "-j", "2", "--markdown")
    done = cli_here(*words, app=app)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| softmax |")]
    assert int(line.split("|")[2]) >= 30
    assert "0 disagreements, seed 1" in done.stdout
    element = Exact.element
    monkeypatch.setattr(Exact, "element", lambda self, node, place: element(self, node, place) * OFF)
    wrong = cli_here(*words, app=app)
    assert wrong.returncode == 1
    assert "softmax y[0, " in wrong.stdout
