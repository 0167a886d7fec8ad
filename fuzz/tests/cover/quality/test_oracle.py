"""What is measured of the oracle: hardly anything is left to the precise tier, or to chance."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fuzz.campaign.tolerance import plain, usual
from fuzz.core.generate.menus import menus_of
from fuzz.quality import oracle
from fuzz.quality.__main__ import app
from fuzz.quality.oracle import escalations
from fuzz.quality.subjects import simulated
from fuzz.tests.conftest import Cli
from oracles.dtypes import DTYPES
from oracles.enclosure import compare
from oracles.ops import OPS
from oracles.tiers.problem import FormulaProblem


@pytest.mark.some(3)
@pytest.mark.parametrize("op", ["layer_norm", "softmax", "logsumexp", "cumsum", "linear_recurrence"])
def test_hardly_any_element_of_hostile_rows_may_be_any_number(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ops: see the nightly test."""
    monkeypatch.setattr(oracle, "_LENGTHS", (7, 70))
    shares = list(escalations(OPS[op], "f32", 1))
    assert sum(share.open for share in shares) <= 0.01 * sum(share.elements for share in shares)


def test_attention_of_scores_that_overflow_may_not_be_any_number() -> None:
    """Where a maximum may be NaN no exponential is known, and a mean lies between its values all the same."""
    op, contract = OPS["attention"], usual(OPS["attention"], "f32")
    problem = FormulaProblem(plain(op, "f32", 4, 7, 1, "magnitudes"))
    with np.errstate(all="ignore"):
        found = problem.enclose(contract, problem.problem.structured)["o"]
        right = simulated(problem, contract, 1)["o"]
    assert found.nan is not None
    assert found.nan.any()
    assert not found.anything(DTYPES["f32"]).any()
    assert not compare(found, right).failing.any()


def test_escalations_are_counted(cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "_LENGTHS", (7, 70))
    words = ("oracle", "--op", "softmax", "--dtype", "f16", "--dtype", "f64", "--json", "tiers.json")
    done = cli_here(*words, "--markdown", app=app)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| softmax | f16 | ") == 1
    record = json.loads((tmp_path / "tiers.json").read_text())
    shares = [share for share in record["escalations"] if share["dtype"] == "f16"]
    assert sum(share["escalated"] for share in shares) < 0.001 * sum(share["elements"] for share in shares)
    assert sum(share["open"] for share in shares) < 0.01 * sum(share["elements"] for share in shares)
    assert "0 may be any number (0.00%)" in done.stdout
    assert {share["recipe"] for share in shares} == {*menus_of(OPS["softmax"])[OPS["softmax"].main].names}
    assert cli_here("oracle", "--dtype", "f99", app=app).returncode == 4


@pytest.mark.parametrize("recipe", ["one_nan", "masked", "infinite_rows"])
@pytest.mark.parametrize("place", [-1.0, 0.5, 7.0, np.nan])
def test_a_place_outside_its_row_is_wrong_whatever_the_row_holds(recipe: str, place: float) -> None:
    op, contract = OPS["topk_softmax"], usual(OPS["topk_softmax"], "f32")
    problem = FormulaProblem(plain(op, "f32", 4, 7, 1, recipe))
    with np.errstate(all="ignore"):
        found = problem.enclose(contract, problem.problem.structured)["expert"]
        right = simulated(problem, contract, 1)["expert"].astype(np.float64)
    loose = found.unjudged
    assert loose is not None
    assert loose.any()
    assert not compare(found, right).failing.any()
    assert (compare(found, np.where(loose, place, right)).failing == loose).all()
