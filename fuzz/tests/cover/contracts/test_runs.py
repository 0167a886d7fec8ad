"""How much wider one contract is than another, over runs."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, cast

import numpy as np
import pytest

from fuzz.contracts.measuring import measured
from fuzz.contracts.runs import TargetRun, gathered, times_as_wide
from fuzz.core.adapters.target import NotRun
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.batch import Batch
from fuzz.tasks.check.function import OwnProcess
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.measured import undeclared
from oracles.formula.contract import Contract

ONE, OTHER = Contract("f32"), Contract("f64")


class _Run:
    """A run of which one contract allows so many times as much as the other, in logarithms."""

    def __init__(self, share: float) -> None:
        self._share = share

    def width(self, contract: Contract) -> float:
        return self._share if contract == ONE else 0.0


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([], 1.0),
        ([math.log(2.0), math.log(8.0)], 4.0),
        ([math.inf, 0.0], math.inf),
        ([-math.inf, 0.0], 0.0),
        ([math.nan, math.log(9.0)], 3.0),
        ([-math.inf, math.log(2.0), math.inf], 2.0),
        ([-math.inf, math.inf], 1.0),
    ],
)
def test_it_is_a_mean_over_runs_where_that_is_a_number_and_else_over_those_that_can_tell(
    shares: list[float], expected: float
) -> None:
    runs = [cast(TargetRun, _Run(share)) for share in shares]
    assert times_as_wide(runs, ONE, OTHER) == pytest.approx(expected)


def test_what_judges_nothing_of_a_row_allows_anything_there_whatever_the_row_comes_to() -> None:
    """The formula makes NaN of a row that has an infinity: a kernel that leaves such rows open may make anything of it,
    and with another maximum, 0, it is the infinity and nothing else."""
    case = a_case("logsumexp", grid=(1, 2), layout=dense, scale=math.inf)
    run = TargetRun(
        case, Outcome("", Status.RAN, {"y": np.array([math.inf], np.float32).tobytes()}), np.array([True]), "y"
    )
    loose, finite = Contract(nonfinite="unspecified"), Contract(algorithm={"most": "finite"})
    assert run.ratio(Contract()) is None
    assert times_as_wide([run], loose, Contract()) == math.inf
    assert times_as_wide([run], finite, Contract()) == 1.0


def test_an_element_strays_by_half_of_what_is_allowed_where_another_contract_allows_more() -> None:
    declared, loose = Contract(accuracy={"erf": 4.0}), Contract(accuracy={"erf": 32.0})
    case = a_case("gelu", grid=(1, 64), layout=dense)
    x = np.frombuffer(case.inputs["x"].bits, np.float32).astype(np.float64)
    y = (x * (1 + np.array([math.erf(each / math.sqrt(2)) for each in x])) / 2).astype(np.float32)
    y[x > 0.5] *= np.float32(1 + 2e-6)
    run = TargetRun(case, Outcome("", Status.RAN, {"y": y.tobytes()}))
    values, strays = run.strays(loose, declared, 1.5).T
    assert len(values) > 50
    assert strays[values > 0.35].all()
    assert strays[values < 0.34].mean() < 0.1
    assert not len(run.strays(declared, declared, 1.5))


def test_what_is_measured_of_one_target_runs_on_no_other_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring each of 24 solutions would run the cases of all on all."""
    submit, left_out = OwnProcess.submit, list[Collection[str]]()

    def noted(self: OwnProcess, cases: Any, without: Collection[str] = (), for_all: Collection[int] = ()) -> Batch:
        left_out.append(without)
        return submit(self, cases, without, for_all)

    monkeypatch.setattr(OwnProcess, "submit", noted)
    pool, target = undeclared(lambda x: x.sum(-1), lambda x: x.sum(-1), "x=... n")
    pool.statuses = {**pool.statuses, "another": NotRun("it only has a name")}
    assert measured(pool, target, target.contract).text
    measuring = len(left_out)
    assert gathered(pool, target, 1, 8, lambda: False)
    assert 0 < measuring < len(left_out)
    assert all("another" in each and target.id not in each for each in left_out)
