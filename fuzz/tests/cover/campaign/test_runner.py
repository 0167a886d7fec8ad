"""The run loop: what happens when the oracle contradicts itself, and when a search must end."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from fuzz.campaign.corpus import folder as corpus
from fuzz.campaign.search.executor import Watch, silent
from fuzz.campaign.search.runner import Runner, note_late, search_ops
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.campaign.search.turn_runner import FindingId, SearchScope, TurnJob, TurnReport
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.execute.batch import Pool, patient
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import Entry
from fuzz.explain.diagnosis import never
from fuzz.findings.book import book_in
from fuzz.findings.casefile import load as load_case
from fuzz.findings.tally import Tally, TargetTally
from oracles.truth import OracleDisagreement, Truth


def _runner(pool: WorkerPool, folder: Path, limits: SessionLimits) -> Runner:
    return Runner(pool, _targets(), limits, book_in(folder, 1))


def _targets() -> tuple[Target, ...]:
    return expand([load(built_in()).kernel("generic")], this_host())


def test_a_run_judges_exactly_the_cases_it_was_allowed(tmp_path: Path) -> None:
    on_their_way = list[tuple[int, bool]]()
    with WorkerPool(_targets()) as pool:
        runner = _runner(pool, tmp_path, SessionLimits(max_cases=50))
        runner.begun = lambda: on_their_way.append((runner.tally.cases, runner.in_flight > 0))
        runner.run_entries([[Entry(load_case(_kept())[0])]])
        tally = runner.run("rms_norm", 3)
    assert (tally.cases, tally.known) == (51, 1), "kept cases do not count as cases of the search"
    assert tally.findings == 0
    assert on_their_way == [(1, True)], "what is done beside a search does not wait for it, nor it for that"


def test_a_run_that_is_over_counts_nothing_more_and_runs_no_given_case(tmp_path: Path) -> None:
    """The same seed ends at the same place."""
    counts = []
    for _ in range(2):
        with WorkerPool(_targets()) as pool:
            runner = _runner(pool, tmp_path, SessionLimits(max_cases=400))
            tally = runner.tally
            runner.over = lambda tally=tally: tally.judged >= 20  # type: ignore[misc]
            runner.run("rms_norm", 3)
            counts.append(tally.cases)
            runner.run_entries([[Entry(load_case(_kept())[0])]])
            assert tally.cases == counts[-1]
    assert counts[0] == counts[1] < 100


def test_a_runner_of_one_target_leaves_the_others_of_its_pool_alone(tmp_path: Path) -> None:
    targets = _targets()
    with WorkerPool(targets) as pool:
        tally = Runner(pool, targets[:1], SessionLimits(), book_in(tmp_path, 1)).run_entries(
            [[Entry(load_case(_kept())[0])]]
        )
    assert len(targets) > 1
    assert {name for name, each in tally.targets.items() if each.judged} == {targets[0].id}


def test_an_op_has_a_share_of_the_cases_for_each_way_in_which_its_kernels_differ_in_what_they_take() -> None:
    given, names = dict[str, int](), ("matmul-generic", "matmul-double", "softmax-generic")

    @dataclass
    class Counting:
        """A runner that does what it is asked for, and no more."""

        limits = SessionLimits(max_cases=48)
        tally = Tally()
        over = staticmethod(never)
        wait_for_workers = staticmethod(lambda: None)
        pool = SimpleNamespace(statuses={})
        targets = tuple(expand([load(built_in()).kernel(name) for name in names], this_host()))

        def run(self, op: str, seed: int, share: float) -> None:
            given[op] = math.ceil((self.limits.max_cases or 0) * share)
            self.tally.cases += given[op]

    search_ops(cast(Runner, Counting()), 1)
    assert given == {"matmul": 32, "softmax": 16}


def test_a_slow_target_without_a_turn_is_no_target_that_no_case_fits() -> None:
    slow, quick = (replace(target, slow=number == 0) for number, target in enumerate(_targets()[:2]))
    tally = Tally({target.id: TargetTally(target.id, "generic") for target in (slow, quick)})
    note_late(tally, (slow, quick), "rms_norm")
    assert tally.targets[slow.id].not_run_reason == "it is slow, and the search ended before it had a turn"
    assert not tally.targets[quick.id].not_run_reason


def test_a_time_limit_ends_the_run(tmp_path: Path) -> None:
    with WorkerPool(_targets()) as pool:
        runner = _runner(pool, tmp_path, SessionLimits(max_time=25.0))
        ticks = iter(range(1000))
        runner.clock = lambda: float(next(ticks))
        tally = runner.run("rms_norm", 3)
    assert 0 < tally.cases < 800


def _kept() -> Path:
    return next((corpus.built_in() / "historical").glob("b005-*.json"))


class _Slow:
    """An executor whose turns take five seconds each, of which any number may be given."""

    count = 1

    def __init__(self) -> None:
        self.watch: Watch = silent
        self.now, self.most, self.ended = 0.0, 0, 0
        self.tasks: list[TurnJob] = []

    def ready(self, seconds: float) -> bool:
        return True

    def room(self, group: int) -> int:
        return 24 - len(self.tasks)

    def give(self, task: TurnJob, lessons: Sequence[bytes]) -> None:
        self.tasks.append(task)
        self.most = max(self.most, len(self.tasks))

    def take(self, seconds: float) -> TurnReport | None:
        self.now += 5.0
        self.ended += 1
        return TurnReport(self.tasks.pop(0)) if self.tasks else None

    def cut(self) -> None: ...

    def drop(self) -> None:
        self.tasks.clear()

    def keep(self, findings: Collection[FindingId]) -> None: ...

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        return ()


def test_no_more_is_begun_than_ends_in_time(tmp_path: Path) -> None:
    """The slices of a night wait for what is on its way: a slow op took the time of those after it."""
    slow, pool = _Slow(), cast(Pool, SimpleNamespace(statuses={}, watch=patient, threads=1))
    groups = SearchScope(tuple(target.kernel for target in _targets()), groups=([target.id for target in _targets()],))
    runner = Runner(
        pool, _targets(), SessionLimits(max_time=20.0), book_in(tmp_path, 1), groups, executor=slow, patient=True
    )
    runner.clock = lambda: slow.now
    runner.run("rms_norm", 3)
    assert slow.most <= 4
    assert slow.ended <= 6
    assert not slow.tasks


def test_an_oracle_that_contradicts_itself_is_said_at_the_end_with_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradict(self: Truth, *arguments: object) -> None:
        raise OracleDisagreement("the tiers differ")

    monkeypatch.setattr(Truth, "check", contradict)
    with WorkerPool(_targets()) as pool:
        runner = _runner(pool, tmp_path, SessionLimits(max_cases=50))
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
        runner = _runner(pool, tmp_path, SessionLimits(max_cases=20))
        tally = runner.run("rms_norm", 3)
    assert all(tally.targets[target.id].gave_up == 0 for target in others)
    assert all(tally.targets[target.id].judged > 0 for target in others)
    assert "internal error: ZeroDivisionError: by its outputs (test_runner.py line " in runner.book.errors[0]
