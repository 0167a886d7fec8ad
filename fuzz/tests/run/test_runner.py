"""The run loop: what happens when the oracle contradicts itself, and when a search must end."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.case import Case
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target, expand
from fuzz.execute.toolchain import this_host
from fuzz.generate.search import search
from fuzz.pack import built_in, load
from fuzz.run.findings import FindingBook
from fuzz.run.runner import Limits, Runner
from fuzz.store.casefile import load as load_case
from oracles.truth import OracleDisagreement, Truth


def _runner(pool: WorkerPool, folder: Path, limits: Limits) -> Runner:
    return Runner(pool, _targets(), limits, FindingBook(folder, 1))


def _targets() -> tuple[Target, ...]:
    return expand([load(built_in()).kernel("generic")], this_host())


def test_a_run_judges_exactly_the_cases_it_was_allowed(tmp_path: Path) -> None:
    with WorkerPool(_targets()) as pool:
        tally = _runner(pool, tmp_path, Limits(max_cases=50)).run("rms_norm", 3)
    assert tally.cases == 50
    assert tally.findings == 0


def test_a_time_limit_ends_the_run(tmp_path: Path) -> None:
    with WorkerPool(_targets()) as pool:
        runner = _runner(pool, tmp_path, Limits(max_time=5.0))
        ticks = iter(range(1000))
        runner.clock = lambda: float(next(ticks))
        tally = runner.run("rms_norm", 3)
    assert 0 < tally.cases < 200


def test_an_oracle_that_contradicts_itself_stops_the_run_and_keeps_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradict(self: Truth, *arguments: object) -> None:
        raise OracleDisagreement("the tiers differ")

    monkeypatch.setattr(Truth, "check", contradict)
    with WorkerPool(_targets()) as pool, pytest.raises(OracleDisagreement, match="the case is kept as") as caught:
        _runner(pool, tmp_path, Limits(max_cases=50)).run("rms_norm", 3)
    (path,) = tmp_path.glob("internal-*.json")
    assert str(path) in str(caught.value)
    assert load_case(path)[0].op == "rms_norm"


def test_an_error_of_the_consumer_is_raised_once_and_as_it_is() -> None:
    calls = 0

    def consume(cases: list[Case]) -> None:
        nonlocal calls
        calls += 1
        raise ValueError("consumer")

    with pytest.raises(ValueError, match="consumer"):
        search("rms_norm", 1, consume)
    assert calls == 1
