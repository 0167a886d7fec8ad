"""A search by many processes: the same cases and verdicts however many there are, and nothing is lost with one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.campaign.search.process_executor import ProcessExecutor
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.schedule import Schedule, in_order, known_at
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.campaign.search.turn_runner import SearchScope, TurnJob, TurnReport
from fuzz.core.adapters.target import Target
from fuzz.core.execute.batch import Wait
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import SHARDS, Search
from fuzz.core.generate.turn import BATCH, Turn
from fuzz.core.laws.registry import declared
from fuzz.findings.book import FindingBook, book_in
from fuzz.findings.tally import Observer, Tally
from fuzz.tests.common.hunting import GENERIC, PACK, target_of, with_edits
from fuzz.tests.common.planted import HANGS
from fuzz.tests.common.running import eventually, until_ended
from fuzz.tests.common.three_bugs import THREE
from fuzz.tests.conftest import HANG_S
from oracles.tests.common.whole import WHOLE

LAWS = declared(PACK.kernels)
_CASES = 700 if WHOLE else 300


def _executor(targets: Sequence[Target], processes: int) -> ProcessExecutor:
    scope = SearchScope([GENERIC], LAWS, ([target.id for target in targets],), records=True)
    return ProcessExecutor(targets, scope, (processes,), lambda mine: WorkerPool(mine, jobs=1))


def _searched(
    folder: Path, targets: Sequence[Target], processes: int, cases: int, *observers: Observer
) -> tuple[Tally, FindingBook, list[dict[str, Any]], ProcessExecutor]:
    """A counted search in so many processes; its records are in the order of the search."""
    records: list[dict[str, Any]] = []

    def keep(lines: Iterable[str]) -> None:
        records.extend(map(json.loads, lines))

    book = book_in(folder, 1)
    with ExitStack() as stack:
        executor = stack.enter_context(_executor(targets, processes))
        pool = stack.enter_context(WorkerPool(targets))
        runner = Runner(
            pool,
            targets,
            SessionLimits(max_cases=cases),
            book,
            executor.scope,
            observers,
            executor=executor,
            records=keep,
        )
        tally = runner.run("rms_norm", 3)
        assert runner.in_flight == 0
    return tally, book, records, executor


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    """A kernel with three bugs, and the one that it was made of."""
    return [target_of(THREE, "O2"), target_of(GENERIC, "O2")]


@pytest.fixture(scope="module")
def undisturbed(targets: list[Target], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return _searched(tmp_path_factory.mktemp("one"), targets, 1, _CASES)


@pytest.mark.whole
def test_the_same_cases_and_verdicts_in_one_process_two_and_five(
    undisturbed: Any, targets: list[Target], tmp_path: Path
) -> None:
    tally, book, records, _ = undisturbed
    assert tally.cases == _CASES
    assert tally.findings > 10
    assert len({record["name"].split(":")[2] for record in records if "name" in record}) > 10  # shards
    for processes in (2, 5):
        again, found, others, executor = _searched(tmp_path / str(processes), targets, processes, _CASES)
        assert others == records
        assert (again.cases, again.judged, again.findings) == (tally.cases, tally.judged, tally.findings)
        assert again.visits == tally.visits
        assert again.laws == tally.laws
        assert {name: bucket.sightings for name, bucket in found.buckets.items()} == {
            name: bucket.sightings for name, bucket in book.buckets.items()
        }
        assert executor.count == processes
        assert 0 < executor.most_bytes < 1 << 30


def test_every_case_that_has_a_name_comes_back_by_it(undisturbed: Any) -> None:
    """What guides propose follows from judgements too, and has none."""
    _, _, records, _ = undisturbed
    search, runs = Search("rms_norm", 3, [GENERIC]), {record["case"]: record for record in records}
    named = {each["name"]: case for case, each in runs.items() if ":big:" not in each.get("name", ":big:")}
    assert len(named) > 100
    for name in list(named)[::5]:
        made = search.case(*map(int, name.split(":")[2:]))
        assert made is not None
        assert made.case.digest == named[name]
    assert sum("name" not in each and "twin_of" not in each for each in runs.values()) > 2


@pytest.mark.whole
def test_a_process_that_is_killed_is_replaced_and_nothing_is_lost_or_counted_twice(
    undisturbed: Any, targets: list[Target], tmp_path: Path
) -> None:
    class Killer(Observer):
        killed = 0

        def progress(self, elapsed: float) -> None:
            if self.killed < 2 and executors[0].deaths == self.killed:  # else it is not noticed yet
                self.killed += 1
                os.kill(executors[0].pids[0], signal.SIGKILL)

    executors: list[ProcessExecutor] = []
    make = ProcessExecutor.__enter__

    def entered(executor: ProcessExecutor) -> ProcessExecutor:
        executors.append(executor)
        return make(executor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ProcessExecutor, "__enter__", entered)
        again, found, records, executor = _searched(tmp_path, targets, 2, _CASES, Killer())
    tally, book, expected, _ = undisturbed
    assert executor.deaths == 2
    assert records == expected
    assert (again.cases, again.judged, again.findings) == (tally.cases, tally.judged, tally.findings)
    assert {name: b.sightings for name, b in found.buckets.items()} == {n: b.sightings for n, b in book.buckets.items()}


def test_no_report_is_lost_that_comes_while_workers_are_waited_for() -> None:
    """As those of slow targets, from the op before."""
    reports: list[TurnReport] = []
    with _executor([target_of(GENERIC, "O2")], 2) as executor:
        while not executor.ready(1.0):
            pass
        for place in range(4):
            executor.give(TurnJob(place, "rms_norm", 1, Turn(place, 0)), [])
        os.kill(executor.pids[0], signal.SIGKILL)
        while not executor.deaths:
            reports += [each for each in (executor.take(0.0),) if each is not None]
        while not executor.ready(1.0):
            pass
        while (report := executor.take(HANG_S)) is not None and len(reports) < 3:
            reports.append(report)
    assert report is not None
    assert sorted(each.task.place for each in (*reports, report)) == [0, 1, 2, 3]


def test_a_hung_kernel_does_not_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    """Whatever the limit of a case is: the keeper above the worker looks after it."""
    total = "total += x[i] * x[i];"
    stuck = target_of(with_edits((total, f"{total} {HANGS}"), name="stuck"), "O2")
    scope = SearchScope([GENERIC], (), ([stuck.id],))
    with ProcessExecutor([stuck], scope, (1,), lambda mine: WorkerPool(mine, jobs=1, limit=3600)) as executor:
        search = Search("rms_norm", 3, [GENERIC])
        executor.give(TurnJob(0, "rms_norm", 3, next(search.turns())), [])
        waits: list[Wait] = []
        executor.watch = waits.extend
        eventually(lambda: executor.take(0.2) is None and bool(waits))
        workers = _descendants(executor.pids[0])
        assert len(workers) > 1
        os.kill(executor.pids[0], signal.SIGKILL)
        until_ended(*workers)


def _descendants(pid: int) -> list[int]:
    try:
        children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return []
    return [*children, *(deeper for child in children for deeper in _descendants(child))]


def test_a_turn_knows_the_first_three_quarters_of_those_before_it_or_all_but_the_last_63() -> None:
    for place in range(1000):
        known = known_at(place)
        assert known <= place
        assert known <= known_at(place + 1) <= known + 2
        # A shard has its next turn for a capability 64 places later, and what that follows from is judged.
        assert place < SHARDS or known > place - SHARDS
    assert known_at(8) == 0
    assert known_at(40) == 30


def test_every_shard_has_a_turn_for_a_chosen_capability_before_any_has_its_next() -> None:
    search = Search("rms_norm", 1, PACK.kernels)
    for capability in search.capabilities:
        turns = [
            turn
            for turn, _ in zip(in_order(search, [capability]), range(400), strict=False)
            if not isinstance(turn, int)
        ]
        for first in range(0, 256, SHARDS):
            assert len({turn.shard for turn in turns[first : first + SHARDS]}) == SHARDS


def test_reports_count_in_the_order_of_the_search_and_the_last_one_is_cut() -> None:
    search = Search("rms_norm", 1, [GENERIC])
    schedule = Schedule(search, "rms_norm", 1, search.capabilities, most=2 * BATCH + 8)
    tasks = [task for task in (schedule.next_task(), schedule.next_task(), schedule.next_task()) if task is not None]
    assert schedule.next_task() is None  # no more are needed

    def ended(place: int, cases: int) -> list[int]:
        return [report.task.place for report in schedule.joined(TurnReport(tasks[place], Tally(cases=cases)))]

    assert ended(1, BATCH + 1) == []
    assert ended(0, BATCH) == [0, 1]
    assert ended(2, 20) == []
    again = schedule.next_task()
    assert again is not None
    assert again == replace(tasks[2], most=7)
    assert [report.task.place for report in schedule.joined(TurnReport(again, Tally(cases=7)))] == [2]
    assert schedule.done
    assert schedule.entries == 2 * BATCH + 8


def test_a_short_search_shares_its_cases_among_the_capabilities() -> None:
    """The first turns had taken all, and a kernel that takes less than others had no case that fits."""
    narrow = replace(GENERIC, name="narrow", capabilities=replace(GENERIC.capabilities, dtypes=("f32",)))
    search = Search("rms_norm", 1, [GENERIC, narrow])
    schedule = Schedule(search, "rms_norm", 1, search.capabilities, most=2 * BATCH - 2)
    tasks = [task for task in (schedule.next_task(), schedule.next_task()) if task is not None]
    assert [task.most for task in tasks] == [BATCH - 1, BATCH - 1]
    turns = [task.turn for task in tasks if isinstance(task.turn, Turn)]
    assert {search.capability(turn) for turn in turns} == {*search.capabilities}
    assert schedule.next_task() is None
    whole = Schedule(search, "rms_norm", 1, search.capabilities, most=2 * BATCH).next_task()
    assert whole is not None
    assert whole.most is None, "there is room for a whole turn of each"


def test_a_search_without_a_count_waits_for_no_big_case() -> None:
    """Each takes the oracle seconds, in which processors would be idle."""
    search = Search("rms_norm", 1, [GENERIC])
    schedule = Schedule(search, "rms_norm", 1, search.capabilities)
    big, turns = list[TurnJob](), list[TurnJob]()
    while not big or len(turns) < 100:
        task = schedule.next_task()
        assert task is not None
        if isinstance(task.turn, int):
            big.append(task)
            continue
        turns.append(task)
        assert [report.task for report in schedule.joined(TurnReport(task))] == [task]
    assert [report.task for report in schedule.joined(TurnReport(big[0], Tally(cases=1)))] == [big[0]]
    assert [task.place for task in turns] == list(range(len(turns)))
