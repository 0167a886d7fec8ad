"""States that are damaged or another's: said, set aside, begun anew; never a file outside their folder."""

from __future__ import annotations

import resource
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from fuzz.campaign.nightly.known import known_cases
from fuzz.campaign.nightly.opening import begin_slice, note_targets, open_night
from fuzz.campaign.nightly.results import NightResults
from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.conditions import Together
from fuzz.core.judge.judge import Judgement
from fuzz.explain.finding import Finding
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.casefile import save
from fuzz.findings.database import open_state, opened_state
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import view
from fuzz.findings.state import BrokenStateError, StateError, locked
from fuzz.findings.store import Unsaved
from fuzz.report.brief import Commands
from fuzz.report.console import progress, results
from fuzz.report.failure import full_text
from fuzz.report.page import page
from fuzz.tests.common.examples import plain
from fuzz.tests.common.strangers import TEXTS

_PLACES = 29
_BATCHES = 20
"""In each of which three runs are judged."""


def a_state(folder: Path, text: str = "what failed") -> Path:
    """A night with a finding whose words are these."""
    engine = a_night(folder, text)
    engine.dispose()
    return Path(engine.url.database or "")


def a_night(folder: Path, text: str = "what failed") -> Engine:
    """The same, still open as it is when a night is killed."""
    engine = open_state(folder / "state.sqlite")
    position = open_night(engine, 1, 10.0, "kernelfuzz nightly --pack 'x", {}, resume=False).position
    begin_slice(engine, position, Slice(0, "rms_norm", 5, 1.0))
    case = plain(5)
    finding = Finding(case, Judgement("c-k@native", case.digest, Verdict.FAIL_NUMERIC, 2.0, reason=text))
    bucket = Bucket("k-values", "k", finding, (5, 0), "c-k@native", Source(5), folder / "5.json", written=True)
    store = DatabaseStore(engine, folder, position)
    note_targets(engine, position.night, (), {})
    with engine.begin() as connection:
        row = "(1, 'c-k@native', 'k', 'rms_norm', 1, '', '{}')"
        connection.exec_driver_sql(
            f"INSERT INTO target (night_id, name, kernel, op, runs, reason, attested) VALUES {row}"
        )
    batch = Unsaved(buckets={"k-values": bucket}, sightings=Counter({("k-values", "c-k@native"): 1}))
    batch.together["rms_norm"] = Together({1: 3, 2: 3})
    assert store.commit(batch) == ""
    for _ in range(_BATCHES):
        more = Unsaved(cases=Counter({(position.slice, 0): 3}), judged=Counter({(position.slice, 0): 3}))
        more.counts = Counter({("judged", "c-k@native"): 3, ("visit", "rms_norm", "n", "5"): 3})
        assert store.commit(more) == ""
    return engine


def sql(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(statement)

    return change


def a_page_of_zeros(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = bytes(4096)
    path.write_bytes(content)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("this is no database, but long enough to be taken for one " * 9),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "a page of zeros": a_page_of_zeros,
    "a folder": a_folder,
    "a batch is gone": sql("DELETE FROM batch WHERE id = 7"),
    "runs of a target are gone": sql("UPDATE counter SET count = 3 WHERE what = 'judged'"),
    "no version": sql("DELETE FROM alembic_version"),
    "a column is gone": sql("ALTER TABLE bucket DROP COLUMN core"),
    "a word for a number": sql("UPDATE night SET seed = 'seven'"),
    "bytes for a word": sql("UPDATE bucket SET explanation = x'ff00'"),
    "no time": sql("UPDATE night SET started = 'yesterday'"),
    "broken JSON": sql("UPDATE night SET environment = '{'"),
    "JSON of another kind": sql("UPDATE target SET attested = '[]'"),
    "pairs of nothing": sql("UPDATE pairs SET together = '{}'"),
    "infinite seconds": sql("UPDATE night SET limit_s = 9e999"),
    "an explanation of nothing": sql("UPDATE bucket SET explanation = '{}'"),
    "a verdict of nobody": sql("UPDATE bucket SET verdict = 'MAYBE'"),
    "a rule that is none": sql("UPDATE bucket SET core = '[[1]]'"),
    "a row that refers to none": sql("UPDATE sighting SET bucket_id = 77"),
    "a file elsewhere": sql("UPDATE bucket SET case_file = '../../precious.json'"),
    "an absolute file": sql("UPDATE bucket SET case_file = '/tmp/precious.json'"),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", list(DAMAGE))
def test_a_damaged_state_is_said_set_aside_and_begun_anew(tmp_path: Path, name: str) -> None:
    path = a_state(tmp_path)
    DAMAGE[name](path)
    with pytest.raises(BrokenStateError) as caught:
        open_state(path)
    assert str(caught.value).isprintable()
    engine, said = opened_state(path)
    assert said.startswith(f"{path}: ")
    assert said.endswith("; it is kept as state.sqlite.broken-1, and a new one begins")
    assert said.isprintable()
    assert (tmp_path / "state.sqlite.broken-1").exists()
    assert open_night(engine, 1, 10.0, "", {}, resume=True).night == 1
    engine.dispose()
    assert opened_state(path)[1] == ""


def test_an_empty_state_is_said_and_not_taken_for_a_new_one(tmp_path: Path) -> None:
    path = a_state(tmp_path)
    path.write_bytes(b"")
    assert "it is empty; it is kept as state.sqlite.broken-1" in opened_state(path)[1]


def test_the_file_of_a_state_has_all_that_was_saved(tmp_path: Path) -> None:
    """Whoever copies it alone copies all, while its night goes on too."""
    copy, engine = tmp_path / "copy.sqlite", a_night(tmp_path)
    copy.write_bytes((tmp_path / "state.sqlite").read_bytes())
    assert view(open_state(copy)).judged == view(engine).judged == 3 * _BATCHES


def test_a_night_on_a_full_disk_is_told_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another process that reads keeps the last batch in the log."""
    with closing(sqlite3.connect(a_state(tmp_path))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM night")
        with open_state(tmp_path / "state.sqlite").begin() as writer:
            writer.exec_driver_sql("INSERT INTO batch (slice_id, minute, cases, judged) VALUES (1, 7, 1000, 0)")
        (tmp_path / "full").mkdir()
        for name in ("state.sqlite", "state.sqlite-wal"):
            shutil.copy(tmp_path / name, tmp_path / "full" / name)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        ended = NightResults(tmp_path / "full", None, (), None, (), (), None, results(), progress()).again()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    told, warned = capsys.readouterr()
    assert "what failed" in told
    assert "1,060 cases" in told
    assert "report.html: File too large" in " ".join(warned.split())
    assert ended.outcome is not None
    assert not ended.saved


def _damaged(whole: bytes, kind: str, at: int) -> bytes:
    found = bytearray(whole[:at] if kind == "cut off" else whole)
    if kind == "zeros":
        found[at : at + 64] = bytes(64)
    elif kind == "a bit":
        found[at] ^= 1 << at % 8
    return bytes(found)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["cut off", "zeros", "a bit"])
def test_a_damaged_state_never_has_fewer_runs_without_a_word(tmp_path: Path, kind: str) -> None:
    whole, path = a_state(tmp_path).read_bytes(), tmp_path / "damaged.sqlite"
    said = 0
    for at in range(101, len(whole), len(whole) // _PLACES):
        path.write_bytes(_damaged(whole, kind, at))
        try:
            engine = open_state(path)
        except StateError as error:
            said += str(error).startswith(f"{path}: ")
            continue
        assert view(engine).judged == 3 * _BATCHES, at
        engine.dispose()
    assert said > 0


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["cut off", "zeros", "a bit", "older"])
def test_a_damaged_log_never_has_fewer_runs_without_a_word(tmp_path: Path, kind: str) -> None:
    """Another process reads while the night is killed, so that its log is kept."""
    path, killed = tmp_path / "state.sqlite", tmp_path / "killed"
    killed.mkdir()
    open_state(path).dispose()
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM night")
        engine = a_night(tmp_path)
        log = (tmp_path / "state.sqlite-wal").read_bytes()
        file, count = path.read_bytes(), (tmp_path / "state.sqlite-saved").read_bytes()
        older = [log[: len(log) // 2]]
        engine.dispose()
    said = 0
    for at in range(33, len(log), len(log) // _PLACES):
        damaged = _damaged(log, kind, at)
        if kind == "older" and older:
            damaged = older.pop()
        for name, content in (("", file), ("-wal", damaged), ("-saved", count)):
            (killed / f"state.sqlite{name}").write_bytes(content)
        try:
            engine = open_state(killed / "state.sqlite")
        except BrokenStateError as error:
            said += "batches were saved" in str(error)
            continue
        assert view(engine).judged == 3 * _BATCHES, at
        engine.dispose()
    assert said > 0


def test_a_state_that_lost_batches_is_set_aside_with_its_count(tmp_path: Path) -> None:
    path = a_state(tmp_path)
    (tmp_path / "state.sqlite-saved").write_text("999\n")
    _, said = opened_state(path)
    assert "damaged: 999 batches were saved, and 21 are there (if it is an older copy, which is to be used: rm " in said
    assert opened_state(path)[1] == ""
    assert (tmp_path / "state.sqlite-saved.broken-1").exists()


def test_a_whole_state_stays_where_it_is(tmp_path: Path) -> None:
    path = a_state(tmp_path)
    engine, said = opened_state(path)
    assert said == ""
    assert [bucket.told.reason for bucket in view(engine).buckets] == ["what failed"]
    assert [path.name for path in tmp_path.glob("*broken*")] == []


def test_words_of_a_state_are_plain_wherever_they_are_shown(tmp_path: Path) -> None:
    words = "\n".join(TEXTS).encode("utf-8", "replace").decode()  # no database holds a lone surrogate
    seen = view(open_state(a_state(tmp_path, words)))
    [bucket] = seen.buckets
    assert all(line.isprintable() for line in full_text(bucket.told, Commands()).split("\n"))
    shown = page(seen)
    assert "<script>alert" not in shown
    assert all(character.isprintable() or character in "\n\t" for character in shown)


def test_a_lock_that_is_no_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "nightly.lock").mkdir()
    with pytest.raises(StateError, match=r"nightly\.lock cannot be written: Is a directory"), locked(tmp_path):
        pass


def test_a_broken_file_of_a_corpus_is_said_and_the_others_are_replayed(tmp_path: Path) -> None:
    save(tmp_path / "good.json", plain(5))
    (tmp_path / "broken.json").write_text('{"kernelfuzz case": 3, "op": 7}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "other.json").write_text('{"kernelfuzz suite": 1}')
    known, broken = known_cases([tmp_path], ["rms_norm"])
    assert [kept.path.name for kept in known] == ["good.json"]
    assert sorted(path.name for path in broken) == ["broken.json", "deep.json", "other.json"]
