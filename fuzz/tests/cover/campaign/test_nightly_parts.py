"""The parts of the nightly job on their own: schedule, lock, stopping."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import create_engine, event

from fuzz.campaign.nightly.night import Night, NightTriage
from fuzz.campaign.nightly.opening import Recorder
from fuzz.campaign.nightly.results import notified
from fuzz.campaign.nightly.sharing import (
    FLOOR,
    News,
    PastSlice,
    Slice,
    chosen,
    next_slice,
    resting,
    searching_time,
    slice_seed,
)
from fuzz.campaign.search import deadline as stopping_module
from fuzz.campaign.search.deadline import OutOfTime, Stopping
from fuzz.core.adapters.target import Target
from fuzz.core.base.feature import Feature, Label
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.findings.database_views import NightView, SliceTotals, TargetTotals
from fuzz.findings.state import StateError, locked
from fuzz.findings.tally import NO_TURN, Point, Tally, WorstRun, climb
from fuzz.report.night import idle_reasons
from fuzz.tests.common.examples import plain
from fuzz.tests.common.running import Running, read_until
from fuzz.tests.conftest import HANG_S
from oracles.formula.contract import Contract
from oracles.summation import Lanes


def test_every_op_gets_its_turn_and_in_the_end_the_same_time() -> None:
    ops, used, left, seeds = {"a": 1, "b": 1, "c": 1}, dict[str, list[PastSlice]](), 8 * 3600.0, set()
    for number in range(200):
        turn = next_slice(7, number, ops, used, left)
        used.setdefault(turn.op, []).append(PastSlice(turn.seconds, 0))
        left -= turn.seconds
        seeds.add(turn.seed)
        if number == 2:
            assert set(used) == set(ops), "the first slices are short, one for every op"
        if left <= 0:
            break
    assert left < 1
    shares = [sum(part.seconds for part in parts) for parts in used.values()]
    assert max(shares) - min(shares) <= 600
    assert len(seeds) == number + 1
    assert slice_seed(7, 3) != slice_seed(8, 3)


@pytest.mark.parametrize("late", [0.0, 1.5])
def test_a_night_of_40_s_over_four_kernels_gives_each_its_turn(late: float) -> None:
    """Each slice takes the time that it is given, and some more at its end."""
    used, left = dict[str, list[PastSlice]](), 40.0
    while left > 0:
        turn = next_slice(7, len(used), dict.fromkeys("abcd", 1), used, left)
        used.setdefault(turn.op, []).append(PastSlice(min(searching_time(turn, left), left), 100))
        left -= used[turn.op][-1].seconds + late
    assert len(used) == 4
    assert min(sum(part.seconds for part in parts) for parts in used.values()) >= 5.0


def test_the_time_is_shared_out_by_kernel_and_not_by_op() -> None:
    used, kernels = dict[str, list[PastSlice]](), {"alone": 1, "many": 4}
    for _ in range(1000):
        used.setdefault(chosen(7, kernels, used, floor=1.0), []).append(PastSlice(1.0, 0))
    assert abs(len(used["many"]) - 4 * len(used["alone"])) <= 4


def test_the_time_goes_where_most_is_new_per_second_and_half_of_a_share_to_all_others() -> None:
    """At first each shows the same; then only one goes on."""
    used = dict[str, list[PastSlice]]()
    for _ in range(600):
        op = chosen(7, dict.fromkeys("abc", 1), used)
        used.setdefault(op, []).append(PastSlice(1.0, 8 if op == "b" or op not in used else 0))
    assert len(used["b"]) >= 600 * (1 - 2 * FLOOR / 3) - 2
    assert min(len(used["a"]), len(used["c"])) >= 600 * FLOOR / 3 - 1


def test_of_two_ops_that_show_the_same_the_cheaper_one_is_searched() -> None:
    used = {"dear": [PastSlice(40.0, 4)], "cheap": [PastSlice(21.0, 4)]}
    assert chosen(7, dict.fromkeys(used, 1), used) == "cheap"
    assert (
        chosen(
            7, dict.fromkeys(used, 1), {**used, "cheap": [PastSlice(21.0, 4), PastSlice(21.0, 0), PastSlice(21.0, 0)]}
        )
        == "dear"
    )


def test_a_slice_that_did_not_end_says_nothing_about_its_op() -> None:
    parts = {"a": [PastSlice(10.0, 50)] * 2, "b": [PastSlice(10.0, 50), PastSlice(10.0, 3)]}
    cut = {"a": [*parts["a"], PastSlice(3.0, None)], "b": parts["b"]}
    assert chosen(7, dict.fromkeys(cut, 1), cut, floor=0.0) == "a"


def test_a_target_that_shows_nothing_first_rests_in_three_of_four_slices_of_its_op() -> None:
    slices, ran = list[SliceTotals](), Counter[str]()
    for number in range(40):
        new = {each: int(each == "first") for each in {"first", "second"} - resting(["first", "second"], slices)}
        slices.append(SliceTotals(number, "op", 1, 1.0, True, 1, 1, 1.0, new))
        ran.update(new.keys())
    assert ran == {"first": 40, "second": 11}
    dry = [SliceTotals(0, "op", 1, 1.0, True, 1, 1, 1.0, {"first": 0, "second": 0})] * 3
    assert not resting(["first", "second"], dry)


def _tally(target: str, ratio: float, labels: Sequence[Label] = ()) -> Tally:
    accuracy = {Point(target, "f32", 8, False): WorstRun(4, ratio, 1.0, "")}
    return Tally(visits={"softmax": Counter(labels)}, accuracy=accuracy)


def test_what_is_new_counts_once_for_the_target_that_showed_it_first() -> None:
    news = News(dict.fromkeys(("one", "other"), cast(Target, SimpleNamespace(kernel=SimpleNamespace(name="k")))))
    label = Feature("dtype"), "f32"
    news.counted(_tally("one", 0.5, [label]))
    news.counted(_tally("other", 0.5, [label]))
    news.counted(_tally("other", 0.6))
    failure = Judgement("other", "0" * 64, Verdict.FAIL_NUMERIC, 2.0)
    for _ in range(2):
        news.failed("k", plain(4), failure, 0.0)
    assert news.taken(["one", "other", "third"]) == {"one": 1, "other": 2, "third": 0, "": 1}
    assert news.taken([]) == {}


def test_which_kernel_comes_first_in_a_night_is_no_matter_of_its_name() -> None:
    firsts = {next_slice(seed, 0, dict.fromkeys("abcd", 1), {}, 40.0).op for seed in range(40)}
    assert firsts == {*"abcd"}


@pytest.mark.parametrize(("had", "explained"), [(["", "a"], 0), (["", "a", "b"], 2)])
def test_nothing_is_explained_before_each_op_had_its_turn(
    monkeypatch: pytest.MonkeyPatch, had: list[str], explained: int
) -> None:
    slices, waiting, saved = [SliceTotals(0, op, 1, 1.0, True, 1, 1) for op in had], [True, True], list[int]()
    monkeypatch.setattr(Night, "_slices", lambda night: slices)
    night = Night.__new__(Night)
    night._running = Counter({"a": 2, "b": 1})
    night.recorder = cast(Recorder, SimpleNamespace(save=lambda: saved.append(len(waiting))))
    night.triage = cast(NightTriage, SimpleNamespace(explain_one=lambda: bool(waiting) and waiting.pop()))
    night._explain()
    assert len(waiting) == 2 - explained
    assert saved == [2, 1, 0][: 1 + explained]


def test_that_no_case_fitted_is_said_only_of_what_had_its_turn() -> None:
    rows = [
        TargetTotals(f"c-{op}@native", op, op, True, reason, {}, 0, 0, 0, 0)
        for op, reason in (("late", ""), ("picky", ""), ("slow", ""), ("absent", "gcc is not installed"))
    ]
    slices = [SliceTotals(1, "picky", 5, 3.0, True, 40, 80), SliceTotals(2, "slow", 6, 3.0, True, 0, 0)]
    seen = cast(NightView, SimpleNamespace(targets=rows, slices=slices))
    assert idle_reasons(seen) == {
        "c-late@native": NO_TURN,
        "c-picky@native": "no case that was drawn fitted it",
        "c-slow@native": NO_TURN,
        "c-absent@native": "gcc is not installed",
    }


def test_a_folder_in_use_is_refused_by_name_of_its_process_and_free_after_a_kill(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from fuzz.findings.state import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    with Running([sys.executable, "-c", hold, str(tmp_path)], tmp_path) as holder:
        read_until("held", holder.stdout)
        refusal = f"in use by another nightly, process {holder.pid}"
        with pytest.raises(StateError, match=refusal), locked(tmp_path):
            pass
    # Leaving the block killed it.
    with locked(tmp_path):
        pass


class _Alarms:
    """The alarms of a limit that was entered, as they come."""

    def __init__(self) -> None:
        self.count = 0
        self._handler: Any = signal.getsignal(signal.SIGALRM)
        signal.signal(signal.SIGALRM, self._rung)

    def _rung(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._handler(number, frame)

    def wait(self) -> None:
        """Wait for two more: the first may have been on its way."""
        wanted = self.count + 2
        while self.count < wanted:
            time.sleep(0.01)


def _run_on() -> None:
    """Something that takes too long."""
    for _ in range(6000):
        time.sleep(0.01)


def test_what_runs_too_long_is_cut_off_but_never_inside_a_shield(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping_module, "GRACE_S", 0.05)
    steps = []
    with Stopping(3600) as stopping:
        alarms = _Alarms()
        with stopping.abortable():
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopping.wanted
            with stopping.shielded():
                alarms.wait()
                steps.append("shielded")
            _run_on()
        steps.append("saved")
        alarms.wait()  # nothing is raised outside
    assert steps == ["shielded", "saved"]
    assert stopping.signalled
    with Stopping(0.05) as limited, limited.abortable():
        _run_on()
    assert limited.wanted
    assert not limited.signalled
    assert not issubclass(OutOfTime, Exception), "Hypothesis and kernels catch Exception"


def test_a_sooner_limit_ends_its_own_work_alone() -> None:
    steps = list[str]()

    def work() -> None:
        steps.append("begun")
        _run_on()
        steps.append("ended")

    with Stopping(3600.0, notes_at=0.0) as stopping:
        with stopping.sooner(0.0):
            assert stopping.within(work, 0.0) is None
        with stopping.sooner(1e-5):
            stopping.within(work, 0.0)
            assert (stopping.wanted, stopping.is_over, stopping.left) == (True, True, 0.0)
        assert (stopping.wanted, stopping.left > 0.0) == (False, True)
        assert stopping.within(lambda: "done") == "done"
        with stopping.sooner(0.5):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wanted, "a signal is for all that follows"
    assert steps == ["begun"]


def test_what_surrounds_a_sooner_limit_is_not_cut_off_by_it() -> None:
    """On a busy machine closing the workers took seconds, and the ruling on a network was lost with all runs."""

    def work() -> str:
        with stopping.sooner(1e-6):
            _Alarms().wait()
            assert stopping.wanted
        return "done"

    with Stopping(3600.0, notes_at=0.0) as stopping:
        assert stopping.within(work, 0.0) == "done"


def test_a_database_that_is_asked_answers_before_what_asks_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLAlchemy would make an error of its own of what is raised inside, and the connection would be halfway."""
    monkeypatch.setattr(stopping_module, "GRACE_S", 0.0)
    steps = []

    def answer_late() -> str:
        alarms.wait()
        return "answered"

    def prepare(connection: sqlite3.Connection, record: object) -> None:
        connection.create_function("slow", 0, answer_late)

    engine = create_engine("sqlite://")
    event.listen(engine, "connect", prepare)
    with Stopping(0.05) as stopping, stopping.abortable():
        alarms = _Alarms()
        with engine.connect() as connection:
            steps.append(connection.exec_driver_sql("SELECT slow()").scalar())
        _run_on()
        steps.append("waited for")
    assert steps == ["answered"]
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_what_must_be_told_is_cut_off_by_a_further_signal_alone() -> None:
    steps = []
    with Stopping(0.0) as stopping, stopping.abortable(math.inf):
        _Alarms().wait()
        steps.append("late")
        os.kill(os.getpid(), signal.SIGTERM)
        steps.append("told once")
        os.kill(os.getpid(), signal.SIGTERM)
        _run_on()
        steps.append("told to the end")
    assert steps == ["late", "told once"]


def test_nothing_is_raised_where_what_may_be_cut_off_begins_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may come at any instruction, and half of those that run here enter or leave."""
    monkeypatch.setattr(stopping_module, "GRACE_S", 0.0)
    monkeypatch.setattr(stopping_module, "_AGAIN_S", 5e-4)
    tries = 0
    with Stopping(0.0) as stopping:
        alarms = _Alarms()
        while alarms.count < 500:
            tries += 1
            with stopping.abortable():
                str(tries)
        signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(0.0)  # a signal that was on its way meets its handler
    assert stopping.wanted


def test_a_second_signal_cuts_off_at_once_and_only_what_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping_module, "GRACE_S", 3600.0)
    steps = []
    with Stopping(3600) as stopping:
        with stopping.abortable():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            _run_on()
            steps.append("judged")
        alarms = _Alarms()
        with stopping.abortable(3600.0):
            alarms.wait()
            steps.append("page")
    assert steps == ["page"]


def test_the_worst_case_climbs_away_from_the_budget_as_n_grows() -> None:
    sequential, lanes = Contract(), Contract(sums={"n": Lanes(16, 4, "scalar")})
    assert climb(sequential, 1, "f32") == 1
    assert climb(sequential, 64, "f32") < climb(sequential, 4096, "f32") < climb(sequential, 32768, "f32")
    assert climb(lanes, 4096, "f32") < climb(sequential, 4096, "f32")


def test_part_of_a_long_night_is_kept_for_what_a_slice_finds() -> None:
    turn = Slice(0, "rms_norm", 5, 600.0)
    assert searching_time(turn, 10_000.0) == 600.0
    assert searching_time(turn, 100.0) == 80.0
    assert searching_time(turn, 20.0) == 20.0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat > /dev/null", ""),
        ("true", ""),
        ("echo ab; echo first >&2; echo last >&2; exit 4", "exit code 4: last"),
        ("exit 1", "exit code 1"),
        ("no-such-command-here", "exit code 127: "),
        ("exec sleep 600", "it took longer than 0.5 s"),
    ],
)
def test_a_notification_that_fails_is_one_line(command: str, words: str) -> None:
    said = notified(command, "x" * (1 << 20), seconds=HANG_S if "sleep" not in command else 0.5)
    assert said.startswith(words)
    assert len(said.splitlines()) <= 1
    assert bool(said) == bool(words)
