"""What moved from night to night: bugs that come and go, and the commit that brought them."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import Engine

from fuzz.campaign.nightly.opening import begin_slice, close, open_night
from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.finding import Finding
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.database import open_state
from fuzz.findings.database_store import DatabaseStore, join, separate
from fuzz.findings.database_views import Bracket, bracket_of, view
from fuzz.findings.state import StateError
from fuzz.findings.store import Unsaved
from fuzz.findings.tables import TargetRow
from fuzz.findings.tally import Point, WorstRun
from fuzz.report.night import changes_of
from fuzz.report.page import came_words, moves_of, page
from fuzz.report.records import environment
from fuzz.tests.common.examples import plain
from fuzz.tests.common.hunting import GENERIC
from fuzz.tests.conftest import Cli

TARGET = "c-k@native:gcc-O2"
NIGHTS = [
    ("a1", {"new-one": "", "back": "fails", "gone": "fails", "odd": "fails", "old": "fails"}),
    ("b2", {"new-one": "", "back": "passes", "gone": "passes", "odd": "passes", "old": "fails"}),
    ("b2", {"new-one": "", "back": "", "gone": "passes", "odd": "fails", "old": ""}),
    ("d4", {"new-one": "fails", "back": "fails", "gone": "passes", "odd": "passes", "old": "fails"}),
]


def _night(engine: Engine, folder: Path, number: int, commit: str, seen: dict[str, str]) -> None:
    facts = {"commit": commit, "machine": "x86_64", "cpu": "a processor"}
    position = open_night(engine, number, 10.0, "kernelfuzz nightly", facts, resume=False).position
    begin_slice(engine, position, Slice(0, "rms_norm", number, 1.0))
    position.began -= 2.0
    with engine.begin() as connection:
        row = {"night_id": position.night, "name": TARGET, "kernel": "k", "op": "rms_norm", "runs": True}
        connection.execute(TargetRow.__table__.insert(), {**row, "reason": "", "attested": {}})  # type: ignore[attr-defined]
    case = plain(5)
    finding = Finding(case, Judgement(TARGET, case.digest, Verdict.FAIL_NUMERIC, 2.0))
    failing = [name for name, said in seen.items() if said == "fails"]
    labels: list[tuple[str, ...]] = [
        ("visit", "rms_norm", "n", "1"),
        *(("space", "rms_norm", "n", value) for value in "12"),
    ]
    batch = Unsaved(
        cases=Counter({(position.slice, 0): 1}),
        judged=Counter({(position.slice, 0): 100 * number}),
        counts=Counter(dict.fromkeys(labels, 1) | {("judged", TARGET): 100 * number}),
        sightings=Counter({(name, TARGET): 1 for name in failing}),
        buckets={
            name: Bucket(name, "k", finding, (5, 0), TARGET, Source(5), folder / f"{name}.json", True)
            for name in failing
        },
        passed={name for name, said in seen.items() if said == "passes"},
        accuracy={Point(TARGET, "f32", 8, False): WorstRun(4, 0.2 * number, 1.0, "here")},
    )  # fmt: skip
    assert DatabaseStore(engine, folder, position).commit(batch) == ""
    close(engine, position, "limit")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = open_state(tmp_path / "state.sqlite")
    for number, (commit, seen) in enumerate(NIGHTS, start=1):
        _night(engine, tmp_path, number, commit, seen)
    return engine


def test_each_bug_is_new_open_fixed_or_flaky_and_has_the_commits_between_which_it_came(engine: Engine) -> None:
    found = {bug.signature: bug for bug in view(engine).trends.bugs}
    assert {name: bug.status for name, bug in found.items()} == {
        "new-one": "new", "back": "open", "gone": "fixed", "odd": "flaky", "old": "open"
    }  # fmt: skip
    brackets = {name: bug.bracket for name, bug in found.items() if bug.bracket is not None}
    assert brackets == {"back": Bracket("b2", "d4")}, "of others no night says that the case passed before"
    assert found["gone"].nights == {1: "fails", 2: "passes", 3: "passes", 4: "passes"}
    files = {bucket.row.signature: bucket.row.case_file for bucket in view(engine).buckets}
    assert (bracket_of(engine, files["back"]), bracket_of(engine, "other.json")) == (Bracket("b2", "d4"), None)
    lines = view(engine).trends.nights
    assert [(past.buckets, past.new, past.fixed, past.commit) for past in lines] == [
        (4, 4, 0, "a1"), (1, 0, 3, "b2"), (1, 0, 1, "b2"), (3, 1, 2, "d4"),
    ]  # fmt: skip
    assert [(past.coverage, round(past.worst["k"], 3)) for past in lines] == [
        (0.5, 0.2),
        (0.5, 0.4),
        (0.5, 0.6),
        (0.5, 0.8),
    ]
    assert [past.night.id for past in view(engine, since=3).trends.nights] == [3, 4]
    with pytest.raises(StateError, match="there is no night 5 in it yet: the latest is 4"):
        view(engine, since=5)


def test_a_notification_has_what_the_night_changed_and_nothing_else(engine: Engine) -> None:
    changed = [
        {change: {each["signature"] for each in found} for change, found in changes_of(view(engine, night)).items()}
        for night in (1, 2, 3, 4)
    ]
    assert changed == [
        {"new": {"back", "gone", "odd", "old"}, "fixed": set(), "returned": set()},
        {"new": set(), "fixed": {"back", "gone", "odd"}, "returned": set()},
        {"new": set(), "fixed": set(), "returned": {"odd"}},
        {"new": {"new-one"}, "fixed": {"odd"}, "returned": {"back"}},
    ]


def _bugs(engine: Engine) -> dict[str, tuple[str, dict[int, str]]]:
    return {bug.signature: (bug.status, dict(bug.nights)) for bug in view(engine).trends.bugs}


def test_buckets_that_were_merged_by_hand_count_as_one_until_they_are_split(
    engine: Engine, tmp_path: Path, cli_here: Cli
) -> None:
    before, counts = _bugs(engine), {each.row.signature: each.count for each in view(engine).buckets}
    done = cli_here("buckets", "merge", str(tmp_path), "gone", "back")
    assert (done.returncode, done.stdout) == (0, "gone counts as back from now on\n"), done.stderr
    one = _bugs(engine)["back"]
    assert one == ("open", {1: "fails", 2: "passes", 4: "fails"}), "in night 3 only one of two cases ran, and passed"
    assert "gone" not in _bugs(engine)
    _night(engine, tmp_path, 5, "e5", {"gone": "fails", "back": ""})
    assert _bugs(engine)["back"][1][5] == "fails", "the nights after it remember it"
    assert changes_of(view(engine))["returned"] == [], "the other part failed in the night before"
    _night(engine, tmp_path, 6, "f6", {"gone": "passes", "back": ""})
    assert [each.status for each in view(engine).buckets if each.row.signature == "back"] == ["not seen"]
    _night(engine, tmp_path, 7, "f7", {"gone": "passes", "back": "passes"})
    assert _bugs(engine)["back"][0] == "fixed"
    assert [each["signature"] for each in changes_of(view(engine))["fixed"]] == ["back"]
    join(engine, "back", "old")
    merged = {each.row.signature: each.count for each in view(engine).buckets}
    assert merged["old"] == counts["old"] + counts["back"] + counts["gone"] + 1
    with pytest.raises(StateError, match="old and gone: are in one bucket already"):
        join(engine, "old", "gone")
    assert separate(engine, "back") == "back counts by itself, no more as old"
    assert cli_here("buckets", "split", str(tmp_path), "gone").returncode == 0
    assert _bugs(engine).keys() == before.keys()
    assert _bugs(engine)["old"] == before["old"]
    for text, words in (("gone", "gone was not merged"), ("nothing", "no bucket is called so; there are: back")):
        with pytest.raises(StateError, match=words):
            separate(engine, text)


def test_what_was_merged_by_hand_follows_its_bucket_when_a_night_merges_that(engine: Engine, tmp_path: Path) -> None:
    join(engine, "gone", "back")
    total = sum(each.count for each in view(engine).buckets)
    position = open_night(engine, 5, 10.0, "kernelfuzz nightly", {}, resume=False).position
    store = DatabaseStore(engine, tmp_path, position)
    store.load()
    assert store.commit(Unsaved(merged=[("back", "old")])) == ""
    assert _bugs(engine).keys() == {"new-one", "odd", "old"}
    assert sum(each.count for each in view(engine).buckets) == total


def test_the_page_shows_what_moved(engine: Engine) -> None:
    shown = page(view(engine))
    assert "1 new, 2 open, 1 flaky, 1 fixed." in shown
    assert "after b2, up to d4" in shown
    assert "x86_64 a processor" in shown
    pace, coverage, accuracy = moves_of(view(engine).trends)
    assert (coverage.words, accuracy.words) == ("50.0%", "0.200 → 0.800")
    assert pace.values[-1] > 3 * pace.values[0] > 0
    assert accuracy.points[0][1] > accuracy.points[-1][1], "a line that climbs"


def test_the_first_bad_commit_is_named_where_nights_leave_but_one(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        done = subprocess.run(("git", "-C", tmp_path, *who, *words), capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    commits = []
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git("rev-parse", "--short", "HEAD"))
    assert came_words(Bracket(commits[1], commits[2]), tmp_path) == commits[2]
    between = f"after {commits[0]}, up to {commits[2]}"
    assert came_words(Bracket(commits[0], commits[2]), tmp_path) == f"{between} (2 commits)"
    assert came_words(Bracket(commits[0], commits[2]), None) == between
    assert came_words(Bracket(commits[0], f"{commits[2]}, with changes"), tmp_path) == ""
    assert environment([GENERIC], tmp_path)["commit"] == commits[2], "its source is in this checkout, its pack is not"
