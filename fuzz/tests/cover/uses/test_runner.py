"""The run loop: what happens when the oracle contradicts itself, and when a search must end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.adapters.toolchain import this_host
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from fuzz.findings.casefile import load as load_case
from fuzz.judge.judge import EntryJudge, Judgement
from fuzz.uses.search.runner import Limits, Runner
from oracles.truth import OracleDisagreement, Truth


def _runner(pool: WorkerPool, folder: Path, limits: Limits) -> Runner:
    return Runner(pool, _targets(), limits, book_in(folder, 1))


def _targets() -> tuple[Target, ...]:
    return expand([load(built_in()).kernel("generic")], this_host())


def test_a_run_judges_exactly_the_cases_it_was_allowed(tmp_path: Path) -> None:
    with WorkerPool(_targets()) as pool:
        tally = _runner(pool, tmp_path, Limits(max_cases=50)).run("rms_norm", 3)
    assert tally.cases == 50
    assert tally.findings == 0


def test_a_time_limit_ends_the_run(tmp_path: Path) -> None:
    with WorkerPool(_targets()) as pool:
        runner = _runner(pool, tmp_path, Limits(max_time=25.0))
        ticks = iter(range(1000))
        runner.clock = lambda: float(next(ticks))
        tally = runner.run("rms_norm", 3)
    assert 0 < tally.cases < 800


def test_an_oracle_that_contradicts_itself_is_said_at_the_end_with_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradict(self: Truth, *arguments: object) -> None:
        raise OracleDisagreement("the tiers differ")

    monkeypatch.setattr(Truth, "check", contradict)
    with WorkerPool(_targets()) as pool:
        runner = _runner(pool, tmp_path, Limits(max_cases=50))
        tally = runner.run("rms_norm", 3)
    assert tally.cases == 50
    assert tally.gave_up > 0
    first, *_ = runner.book.errors
    assert len(runner.book.errors) == 3
    [path] = re.findall(r"internal error: the tiers differ; the case is kept as (\S+);", first)
    assert load_case(Path(path))[0].op == "rms_norm"


def test_an_error_of_ours_over_one_kernel_loses_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, [odd, *others] = EntryJudge.judge, _targets()

    def weak(self: EntryJudge, target: Target) -> Judgement:
        if target == odd:
            raise ZeroDivisionError("by its outputs")
        return judge(self, target)

    monkeypatch.setattr(EntryJudge, "judge", weak)
    with WorkerPool(_targets()) as pool:
        runner = _runner(pool, tmp_path, Limits(max_cases=20))
        tally = runner.run("rms_norm", 3)
    assert all(tally.targets[target.id].gave_up == 0 for target in others)
    assert all(tally.targets[target.id].judged > 0 for target in others)
    assert "internal error: ZeroDivisionError: by its outputs (test_runner.py line " in runner.book.errors[0]
