"""What every store of findings keeps: each sighting once, in the bucket that it belongs to, and each case in a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.campaign.nightly.opening import begin_slice, open_night
from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.base.case import Case
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Source, by_family, by_verdict
from fuzz.findings.casefile import load
from fuzz.findings.database import open_state
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import view
from fuzz.findings.store import FileStore, Store, Unsaved
from fuzz.tests.common.examples import plain

TARGET, OTHER = "c-k@native:gcc-O2", "c-k@native:gcc-O0"


def _in_files(folder: Path) -> Store:
    return FileStore(folder / "findings")


def _in_a_database(folder: Path) -> Store:
    engine = open_state(folder / "state.sqlite")
    opened = open_night(engine, 1, 10.0, "", {}, resume=False)
    begin_slice(engine, opened.position, Slice(0, "rms_norm", 5, 1.0))
    return DatabaseStore(engine, folder / "findings", opened.position)


def _judgement(case: Case, target: str = TARGET, verdict: Verdict = Verdict.FAIL_NUMERIC) -> Judgement:
    return Judgement(target, case.digest, verdict, 2.0)


@pytest.mark.parametrize("made", [_in_files, _in_a_database])
class TestAnyStore:
    """One class for all of them: a further store is one more parameter."""

    def _book(self, made: Callable[[Path], Store], folder: Path) -> FindingBook:
        return FindingBook(made(folder), lambda: Source(7, "a search"), name_of=by_family)

    def _seen(self, book: FindingBook) -> dict[str, dict[str, int]]:
        """What the book has seen; a store that keeps counts has the same, and nothing of it may be in the dark."""
        seen = {name: dict(+bucket.sightings) for name, bucket in book.buckets.items() if +bucket.sightings}
        database = book.store.folder.parent / "state.sqlite"
        if database.is_file():
            assert {bucket.row.signature: bucket.sightings for bucket in view(open_state(database)).buckets} == seen
        return seen

    def test_every_sighting_is_kept_once_whatever_batch_it_came_with(
        self, made: Callable[[Path], Store], tmp_path: Path
    ) -> None:
        book = self._book(made, tmp_path)
        for n in (9, 5, 7):
            for target in (TARGET, OTHER):
                book.add("k", plain(n), _judgement(plain(n), target), {})
            assert book.commit() == ""
        assert self._seen(book) == {"k-values": {TARGET: 3, OTHER: 3}}
        assert book.commit() == "", "a batch in which nothing happened"
        assert self._seen(book) == {"k-values": {TARGET: 3, OTHER: 3}}

    def test_the_smallest_case_is_the_only_file(self, made: Callable[[Path], Store], tmp_path: Path) -> None:
        book = self._book(made, tmp_path)
        for n in (50, 5, 70):
            book.add("k", plain(n), _judgement(plain(n)), {})
            book.commit()
        [path] = (tmp_path / "findings").iterdir()
        case, found = load(path)
        assert case == plain(5)
        assert found is not None
        assert (found.target, found.run_seed, found.verdict) == (TARGET, 7, "FAIL_NUMERIC")
        assert book.buckets["k-values"].path == path

    def test_findings_move_between_buckets_with_their_counts(
        self, made: Callable[[Path], Store], tmp_path: Path
    ) -> None:
        """In the batch that saw them, and in one after it."""
        book = self._book(made, tmp_path)
        for n in (5, 6, 7, 8, 9):
            home = book.add("k", plain(n), _judgement(plain(n)), {})
        book.commit()
        home = book.add("k", plain(10), _judgement(plain(10), OTHER), {})
        findings = home.pile.findings
        further = book.open(home, [each for each in findings if each.case in (plain(8), plain(9), plain(10))])
        book.commit()
        assert self._seen(book) == {"k-values": {TARGET: 3}, "k-values+2": {TARGET: 2, OTHER: 1}}
        book.move(further, home, [each for each in further.pile.findings if each.target == OTHER])
        book.commit()
        assert self._seen(book) == {"k-values": {TARGET: 3, OTHER: 1}, "k-values+2": {TARGET: 2}}
        assert {path.name for path in (tmp_path / "findings").iterdir()} == {
            bucket.path.name for bucket in book.buckets.values() if bucket.path is not None
        }

    def test_a_bucket_that_is_merged_leaves_its_findings_and_nothing_else(
        self, made: Callable[[Path], Store], tmp_path: Path
    ) -> None:
        book = self._book(made, tmp_path)
        values = book.add("k", plain(5), _judgement(plain(5)), {})
        timeout = book.add("k", plain(6), _judgement(plain(6), OTHER, Verdict.TIMEOUT), {})
        book.commit()
        book.add("k", plain(6), _judgement(plain(6), OTHER, Verdict.TIMEOUT), {})
        book.merge(timeout, values)
        book.commit()
        assert self._seen(book) == {"k-values": {TARGET: 1, OTHER: 2}}
        assert [path.name for path in (tmp_path / "findings").iterdir()] == [f"k-values-{plain(5).digest[:12]}.json"]
        again = book.add("k", plain(6), _judgement(plain(6), OTHER, Verdict.TIMEOUT), {})
        assert again.name == "k-timeout+2", "a name is not given twice in one session"

    def test_a_bucket_that_is_merged_as_soon_as_it_has_a_case_leaves_no_file(
        self, made: Callable[[Path], Store], tmp_path: Path
    ) -> None:
        book = self._book(made, tmp_path)
        values = book.add("k", plain(5), _judgement(plain(5)), {})
        book.merge(book.add("k", plain(6), _judgement(plain(6), OTHER, Verdict.TIMEOUT), {}), values)
        assert book.commit() == ""
        assert self._seen(book) == {"k-values": {TARGET: 1, OTHER: 1}}
        assert [path.name for path in (tmp_path / "findings").iterdir()] == [f"k-values-{plain(5).digest[:12]}.json"]

    def test_what_could_not_be_written_is_written_with_a_later_batch(
        self, made: Callable[[Path], Store], tmp_path: Path
    ) -> None:
        book = self._book(made, tmp_path)
        (tmp_path / "findings").write_text("in the way")
        bucket = book.add("k", plain(5), _judgement(plain(5)), {})
        assert "cannot be written" in book.commit()
        assert not bucket.written
        (tmp_path / "findings").unlink()
        assert book.commit() == ""
        [path] = (tmp_path / "findings").iterdir()
        assert (bucket.path, load(path)[0]) == (path, plain(5))
        assert self._seen(book) == {"k-values": {TARGET: 1}}


def test_batches_add_up() -> None:
    one, other = Unsaved(), Unsaved()
    one.counts["judged", TARGET] = 1
    one.reasons[TARGET] = "first"
    other.counts["judged", TARGET] = 2
    other.counts["not_run", TARGET] = 1
    other.reasons[TARGET] = "last"
    other.sightings["k", TARGET] = 3
    one.add(other)
    assert dict(one.counts) == {("judged", TARGET): 3, ("not_run", TARGET): 1}
    assert (one.reasons, dict(one.sightings)) == ({TARGET: "last"}, {("k", TARGET): 3})


def test_a_database_that_is_read_again_has_the_same_buckets(tmp_path: Path) -> None:
    engine = open_state(tmp_path / "state.sqlite")
    opened = open_night(engine, 1, 10.0, "", {}, resume=False)
    book = FindingBook(
        DatabaseStore(engine, tmp_path, opened.position), lambda: Source(7, "a search"), name_of=by_verdict
    )
    kept = book.add("k", plain(5), _judgement(plain(5)), {})
    book.commit()
    engine.dispose()
    [bucket] = DatabaseStore(open_state(tmp_path / "state.sqlite"), tmp_path, opened.position).load().values()
    assert (bucket.name, bucket.kernel, bucket.size[0], bucket.target) == ("k-fail_numeric", "k", kept.size[0], TARGET)
    assert (bucket.path, bucket.pending, bucket.source.command) == (kept.path, True, "a search")
    assert time.monotonic() >= opened.position.began
