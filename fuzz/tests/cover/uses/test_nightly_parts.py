"""The parts of the nightly job on their own: schedule, lock, stopping, database."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session as Transaction

from fuzz.findings.accuracy import climb
from fuzz.findings.database import open_state
from fuzz.findings.database_deltas import Accuracy, BucketDelta, Delta, Move, Point, TargetCounts, write
from fuzz.findings.database_views import view
from fuzz.findings.rules import rule_from_text, rule_to_text
from fuzz.findings.state import StateError
from fuzz.tests.common.running import Running, read_until
from fuzz.triage.history import Need
from fuzz.triage.rule import Atom, Rule
from fuzz.uses.nightly import stopping as stopping_module
from fuzz.uses.nightly.lock import locked
from fuzz.uses.nightly.opening import begin_slice, kept_buckets, open_night
from fuzz.uses.nightly.schedule import Turn, next_turn, searching_time, slice_seed
from fuzz.uses.nightly.shares import FairShares
from fuzz.uses.nightly.stopping import OutOfTime, Stopping
from oracles.numerics import Numerics
from oracles.summation import Lanes, Sequential


def test_every_op_gets_its_turn_and_in_the_end_the_same_time() -> None:
    ops, used, left, seeds = ["a", "b", "c"], dict[str, list[float]](), 8 * 3600.0, set()
    for number in range(200):
        turn = next_turn(7, number, ops, used, left)
        used.setdefault(turn.op, []).append(turn.seconds)
        left -= turn.seconds
        seeds.add(turn.seed)
        if number == 2:
            assert set(used) == set(ops), "the first slices are short, one for every op"
        if left <= 0:
            break
    assert left < 1
    shares = [sum(parts) for parts in used.values()]
    assert max(shares) - min(shares) <= 600
    assert len(seeds) == number + 1
    assert slice_seed(7, 3) != slice_seed(8, 3)


def test_a_short_night_still_visits_every_op() -> None:
    used: dict[str, list[float]] = {}
    for number in range(4):
        turn = next_turn(7, number, ["a", "b", "c", "d"], used, 40.0 - 10.0 * number)
        used[turn.op] = [10.0]
    assert len(used) == 4


def test_a_folder_in_use_is_refused_by_name_of_its_process_and_free_after_a_kill(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from fuzz.uses.nightly.lock import locked\n"
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


def _run_on() -> None:
    """Something that takes too long."""
    for _ in range(6000):
        time.sleep(0.01)


def test_what_runs_too_long_is_cut_off_but_never_inside_a_shield(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping_module, "GRACE_S", 0.05)
    steps = []
    with Stopping(3600) as stopping:
        with stopping.abortable():
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopping.wanted
            with stopping.shielded():
                time.sleep(0.3)
                steps.append("shielded")
            _run_on()
        steps.append("saved")
        time.sleep(0.3)  # nothing is raised outside
    assert steps == ["shielded", "saved"]
    assert stopping.signalled
    with Stopping(0.05) as limited, limited.abortable():
        _run_on()
    assert limited.wanted
    assert not limited.signalled
    assert not issubclass(OutOfTime, Exception), "Hypothesis and kernels catch Exception"


def test_a_second_signal_cuts_off_at_once_and_only_what_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping_module, "GRACE_S", 3600.0)
    steps = []
    with Stopping(3600) as stopping:
        with stopping.abortable():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            _run_on()
            steps.append("judged")
        with stopping.abortable(3600.0):
            time.sleep(0.3)
            steps.append("page")
    assert steps == ["page"]


def _delta(count: int, size: int) -> Delta:
    columns = {
        "kernel": "k", "op": "rms_norm", "verdict": "FAIL_NUMERIC", "law": "", "target": "c-k@native:gcc-O2",
        "case_file": f"{size}.json", "digest": f"{size}", "size": size, "where": "1x1", "text": "", "explanation": "",
        "found_by": "",
    }  # fmt: skip
    point = Point("c-k@native:gcc-O2", "f32", 8, False)
    return Delta(
        cases=count,
        laws=Counter({"rerun": count}),
        coverage=Counter({("rms_norm", "n", "5"): count}),
        accuracy={point: Accuracy(4, 0.1 * size, 1.0, f"{size}", count)},
        pace={0: [count, count]},
        targets={},
        buckets={"k-fail": BucketDelta(columns, Counter({"c-k@native:gcc-O2": count}))},
    )


def test_deltas_add_up_alike_in_memory_and_in_the_tables(tmp_path: Path) -> None:
    merged = Delta()
    seen = []
    for name, parts in (("one", (1, 1)), ("many", (3, 4))):
        engine = open_state(tmp_path / f"{name}.sqlite")
        opened = open_night(engine, 1, 10.0, "", {}, resume=False)
        begin_slice(engine, opened.place, Turn(0, "rms_norm", 5, 1.0))
        deltas = [_delta(3, 5), _delta(4, 2), _delta(5, 9)]
        for delta in deltas if parts == (3, 4) else [merged]:
            if delta is merged:
                for each in deltas:
                    merged.add(each)
            with Transaction(engine) as transaction, transaction.begin():
                write(transaction, delta, opened.place.clock())
        found = view(engine)
        (bucket,), (point,), (law,) = found.buckets, found.accuracy, found.laws
        seen.append((bucket.row.count, bucket.row.size, bucket.row.case_file, bucket.sightings, found.cases))
        assert (round(point.ratio, 9), point.where, point.runs) == (0.9, "9", 12)
        assert law.compared == found.coverage[0].visits == found.pace[0].judged == 12
    assert seen[0] == seen[1] == (12, 2, "2.json", {"c-k@native:gcc-O2": 12}, 12)


def test_a_full_disk_leaves_the_tables_as_they_were(tmp_path: Path) -> None:
    """SQLite's own limit of pages stands for the disk: the same error, at the same places."""
    engine = open_state(tmp_path / "state.sqlite")
    opened = open_night(engine, 1, 10.0, "", {}, resume=False)
    begin_slice(engine, opened.place, Turn(0, "rms_norm", 5, 1.0))
    many = Delta(cases=1, coverage=Counter({("rms_norm", "n", str(n)): 1 for n in range(5000)}))
    with Transaction(engine) as transaction:
        transaction.execute(text("PRAGMA max_page_count = 1"))
        with pytest.raises(OperationalError, match="full"):
            write(transaction, many, opened.place.clock())
        transaction.rollback()
    engine.dispose()
    assert view(open_state(tmp_path / "state.sqlite")).cases == 0
    with Transaction(engine) as transaction, transaction.begin():
        write(transaction, many, opened.place.clock())
    assert view(engine).cases == 1


def test_states_that_cannot_be_used_are_refused_in_one_line(tmp_path: Path) -> None:
    newer = tmp_path / "newer.sqlite"
    engine = open_state(newer)
    with engine.begin() as connection:
        connection.execute(text("PRAGMA user_version = 99"))
    with pytest.raises(StateError, match="version 99, this kernelfuzz has version 2"):
        open_state(newer)
    (tmp_path / "junk.sqlite").write_text("this is no database, but long enough to look at\n" * 100)
    with pytest.raises(StateError, match="not a state of kernelfuzz"):
        open_state(tmp_path / "junk.sqlite")
    with pytest.raises(StateError, match="cannot be written"):
        open_state(Path("/proc/state.sqlite"))
    with pytest.raises(StateError, match="no night in it yet"):
        view(open_state(tmp_path / "new.sqlite"))


def test_a_state_of_version_1_is_gone_on_with(tmp_path: Path) -> None:
    """It says nothing of causes: what was explained then keeps its bucket, and the rest is examined."""
    engine = open_state(tmp_path / "state.sqlite")
    opened = open_night(engine, 1, 10.0, "", {}, resume=False)
    begin_slice(engine, opened.place, Turn(0, "rms_norm", 5, 1.0))
    with Transaction(engine) as transaction, transaction.begin():
        write(transaction, _delta(3, 5), opened.place.clock())
    with engine.begin() as connection:
        connection.execute(text("UPDATE bucket SET triaged = digest"))
        for statement in ("DROP COLUMN need", "DROP COLUMN core"):
            connection.execute(text(f"ALTER TABLE bucket {statement}"))
        connection.execute(text("PRAGMA user_version = 1"))
    engine.dispose()
    again = open_state(tmp_path / "state.sqlite")
    [(kept, file)] = kept_buckets(again).values()
    assert (kept.need, kept.core, kept.pending, file) == (Need.NOTHING, None, False, "5.json")


def test_findings_move_between_buckets_with_their_counts(tmp_path: Path) -> None:
    engine = open_state(tmp_path / "state.sqlite")
    opened = open_night(engine, 1, 10.0, "", {}, resume=False)
    begin_slice(engine, opened.place, Turn(0, "rms_norm", 5, 1.0))
    target = "c-k@native:gcc-O2"
    delta = _delta(5, 5)
    delta.buckets["k-fail+2"] = BucketDelta(delta.buckets["k-fail"].smallest, Counter({target: 2}))
    delta.moves = [Move("k-fail", "k-fail+2", {target: 3})]
    with Transaction(engine) as transaction, transaction.begin():
        write(transaction, delta, opened.place.clock())
    assert {b.row.signature: (b.row.count, b.sightings[target]) for b in view(engine).buckets} == {
        "k-fail": (2, 2), "k-fail+2": (5, 5),
    }  # fmt: skip
    with Transaction(engine) as transaction, transaction.begin():
        write(transaction, Delta(moves=[Move("k-fail+2", "k-fail", None)], passed={"k-fail+2"}), opened.place.clock())
    [bucket] = view(engine).buckets
    assert (bucket.row.signature, bucket.row.count, bucket.sightings) == ("k-fail", 7, {target: 7})


def test_a_rule_is_the_same_after_it_was_kept() -> None:
    rule = Rule((Atom("n mod 64", "=", (63,), 1.2), Atom("dtype of x", "in", ("f16", "f32"), 2.0)))
    assert rule_from_text(rule_to_text(rule)) == rule
    assert rule_from_text(rule_to_text(None)) is None
    assert rule_from_text(rule_to_text(Rule())) == Rule()


def test_target_counts_keep_the_latest_reason() -> None:
    counts = TargetCounts(judged=1, reason="first")
    counts.add(TargetCounts(not_run=2, reason=""))
    counts.add(TargetCounts(not_run=1, reason="last"))
    assert (counts.judged, counts.not_run, counts.reason) == (1, 3, "last")


def test_the_worst_case_climbs_away_from_the_budget_as_n_grows() -> None:
    sequential, lanes = Numerics(summation=Sequential()), Numerics(summation=Lanes(16, 4, "scalar"))
    assert climb(sequential, 1, "f32") == 1
    assert climb(sequential, 64, "f32") < climb(sequential, 4096, "f32") < climb(sequential, 32768, "f32")
    assert climb(lanes, 4096, "f32") < climb(sequential, 4096, "f32")


def test_a_slow_target_rests_when_it_had_its_part_of_the_time_and_never_for_good() -> None:
    busy, now = {"slow": 0.0, "quick": 0.0}, [100.0]
    shares = FairShares(lambda: busy, jobs=2, clock=lambda: now[0])
    assert shares() == frozenset()
    busy["slow"] = 2.5  # of the first tenth of a second, more than its head start and its half of two processors
    now[0] = 100.1
    assert shares() == {"slow"}
    now[0] = 101.0
    assert shares() == frozenset(), "its share has grown"
    busy["slow"], now[0] = 60.0, 150.0
    assert shares() == {"slow"}, "one of two targets on two processors may be at work all the time, and no more"


def test_part_of_a_long_night_is_kept_for_what_a_slice_finds() -> None:
    turn = Turn(0, "rms_norm", 5, 600.0)
    assert searching_time(turn, 10_000.0) == 600.0
    assert searching_time(turn, 100.0) == 80.0
    assert searching_time(turn, 20.0) == 20.0
