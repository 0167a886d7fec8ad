"""The run loop: what happens when the oracle contradicts itself, and when a search must end."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.adapters.toolchain import this_host
from fuzz.base.case import Case
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from fuzz.findings.casefile import load as load_case
from fuzz.findings.tally import Observer
from fuzz.judge.judge import EntryJudge, Judgement
from fuzz.judge.oracle_process import OracleProcess
from fuzz.laws.registry import LAWS
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
        runner = _runner(pool, tmp_path, Limits(max_time=5.0))
        ticks = iter(range(1000))
        runner.clock = lambda: float(next(ticks))
        tally = runner.run("rms_norm", 3)
    assert 0 < tally.cases < 200


@pytest.mark.parametrize("apart", [False, True])
def test_an_oracle_that_contradicts_itself_is_said_at_the_end_with_the_case(
    apart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradict(self: Truth, *arguments: object) -> None:
        raise OracleDisagreement("the tiers differ")

    monkeypatch.setattr(Truth, "check", contradict)
    with ExitStack() as stack:
        oracle = stack.enter_context(OracleProcess(target.numerics for target in _targets())) if apart else None
        runner = _runner(stack.enter_context(WorkerPool(_targets())), tmp_path, Limits(max_cases=50))
        runner.oracle = oracle
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


def _judged(
    folder: Path, pool: WorkerPool, oracle: OracleProcess | None, ends_after: int = 0, guided: bool = False
) -> list[object]:
    """All that is judged of a search, in its order; the oracle's process ends after so many cases."""
    seen: list[object] = []
    sent: list[Case] = []

    def counted(cases: Sequence[Case]) -> Sequence[int]:
        sent.extend(cases)
        return ()

    class Watch(Observer):
        def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
            seen.append((case.digest, [(j.target, j.verdict, j.ratio, repr(j.worst), j.law) for j in judgements]))
            if oracle is not None and oracle.pid is not None and len(seen) == ends_after:
                os.kill(oracle.pid, signal.SIGKILL)

        def progress(self, elapsed: float) -> None:
            assert runner.in_flight == len(sent) - len(seen)

    targets = _targets()
    book = book_in(folder, 1)
    runner = Runner(pool, targets, Limits(max_cases=150), book, tuple(LAWS), oracle=oracle)
    runner.observers, runner.guided = [Watch()], guided
    runner.for_all = counted
    tally = runner.run("rms_norm", 3)
    assert runner.in_flight == 0
    assert tally.cases == len(seen) == 150
    assert sum(tally.laws.values()) > 0
    return seen


def test_the_oracles_own_process_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contracts = [target.numerics for target in _targets()]
    with WorkerPool(_targets()) as pool:
        expected = _judged(tmp_path, pool, None)
    with OracleProcess(contracts) as oracle, WorkerPool(_targets()) as pool:
        assert _judged(tmp_path, pool, oracle, ends_after=60) == expected
        assert oracle.trouble
    with OracleProcess(contracts) as oracle, WorkerPool(_targets()) as pool:
        with monkeypatch.context() as patched:
            patched.delattr(Truth, "check")  # nothing is judged here
            assert _judged(tmp_path, pool, oracle) == expected
        assert not oracle.trouble


def test_what_the_guide_knows_does_not_depend_on_how_long_that_process_lives(tmp_path: Path) -> None:
    seen = []
    for ends_after in (0, 40):
        with OracleProcess(target.numerics for target in _targets()) as oracle, WorkerPool(_targets()) as pool:
            seen.append(_judged(tmp_path, pool, oracle, ends_after, guided=True))
            assert bool(oracle.trouble) == bool(ends_after)
    assert seen[0] == seen[1]
