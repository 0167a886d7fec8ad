"""What a night finds, shrunk and explained within its share of the time."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.campaign.nightly.night import NightTriage
from fuzz.campaign.nightly.opening import Recorder, begin_slice, open_night
from fuzz.campaign.nightly.sharing import Slice
from fuzz.campaign.search.deadline import Stopping
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, contiguous
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import Entry
from fuzz.findings import casefile
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, Source, by_family
from fuzz.findings.database import open_state
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import view
from fuzz.findings.store import FileStore, Position, Unsaved
from fuzz.tests.common.hunting import TAIL_63, given_case, target_of, with_edits
from fuzz.tests.common.planted import a_case


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is explained depends on no clock."""
    monkeypatch.setattr("fuzz.campaign.nightly.night.SECONDS", 600.0)


def _wrong() -> Target:
    return target_of(with_edits(TAIL_63, name="wrong"), "native:gcc-O2")


def _nothing(judgement: Judgement) -> tuple[Case, ...]:
    return ()


@pytest.mark.whole
def test_what_is_found_is_shrunk_and_explained_once_with_its_first_origin(tmp_path: Path) -> None:
    target = _wrong()
    sources = [Source(5, "the search that found it"), Source(6, "a later search")]
    book = FindingBook(FileStore(tmp_path), lambda: sources[0], {target.id: target}, by_family)
    case = given_case((3, 63), 1, "contiguous")
    with WorkerPool([target]) as pool, Stopping(3600.0) as stopping:
        [outcomes] = pool.submit([case]).outcomes()
        judgement = EntryJudge(Entry(case), outcomes).judge(target)
        bucket = book.add("wrong", case, judgement, {})
        assert book.add("wrong", case, replace(judgement, verdict=Verdict.FAIL_NONFINITE), {}) is bucket
        sources.pop(0)
        position = Position(1, 1, 0.0, time.monotonic())
        triage = NightTriage(pool, [target], book, position, stopping, limit_s=4000.0, before=_nothing)
        assert triage.explain_one()
        assert not triage.explain_one(), "nothing is waiting any more"
    told = book.batch.buckets[bucket.name]
    assert told.told.explained == "whole"
    assert (told.pending, told.source.command) == (False, "the search that found it")
    assert position.triage_s > 0
    assert told.path is not None
    _, found = casefile.load(told.path)
    assert found is not None
    assert (found.run_seed, found.original) == (5, case.digest)
    assert found.explanation == told.told


@pytest.mark.whole
def test_what_an_earlier_session_has_found_is_recalled_from_its_file_and_explained(tmp_path: Path) -> None:
    """The session before was killed; the one that goes on has replayed nothing, and knows what the tables say."""
    target = _wrong()
    case = given_case((3, 63), 1, "contiguous")
    engine = open_state(tmp_path / "state.sqlite")
    for resume in (False, True):
        opened = open_night(engine, 5, 4000.0, "", {}, resume=resume)
        begin_slice(engine, opened.position, Slice(int(resume), "rms_norm", 5, 60.0))
        store = DatabaseStore(engine, tmp_path / "findings", opened.position)
        book = FindingBook(store, lambda: Source(5, "a search"), {target.id: target}, by_family, store.load())
        if not resume:
            book.add("wrong", case, Judgement(target.id, case.digest, Verdict.FAIL_NUMERIC, 9.0), {})
            assert book.commit() == ""
    [bucket] = book.buckets.values()
    assert bucket.finding is None
    with WorkerPool([target]) as pool, Stopping(3600.0) as stopping:
        assert NightTriage(
            pool, [target], book, opened.position, stopping, limit_s=4000.0, before=_nothing
        ).explain_one()
    assert book.commit() == ""
    [seen] = view(engine).buckets
    assert (seen.count, seen.row.need, seen.row.triaged) == (1, "fails alone", seen.row.digest)
    assert seen.told.attribution is not None
    assert seen.told.attribution.cause == "the kernel's source"
    assert seen.told.attribution.evidence.startswith("wrong fails")
    [path] = (tmp_path / "findings").iterdir()
    assert path.name == seen.row.case_file


def test_only_the_target_that_failed_shows_that_a_kept_case_passes_now(tmp_path: Path) -> None:
    """Others pass it anyway, and a slow one may be skipped."""
    generic = load(built_in()).kernel("generic")
    targets = [target for target in expand([generic], this_host()) if target.id.startswith("c-generic@native:gcc-")][:2]
    case = a_case(contiguous((3, 50)), bits=np.full((3, 50), 1.0, "<f4").tobytes())
    by_id = {target.id: target for target in targets}
    book = FindingBook(FileStore(tmp_path), lambda: Source(5, "a search"), by_id, by_family)
    book.buckets["bug"] = Bucket("bug", "generic", size=(150, 0), target=targets[0].id)
    book.running_again[case.digest] = "bug"
    with WorkerPool(targets) as pool:
        [outcomes] = pool.submit([case]).outcomes()
    judge = EntryJudge(Entry(case), outcomes)
    position = Position(1, 1, 0.0, time.monotonic())
    for among, passes in ((targets[1:], set()), (targets, {"bug"})):
        book.batch = Unsaved()
        recorder = Recorder(by_id, book, position, Stopping(1.0), print)
        recorder.judged(case, [judge.judge(target) for target in among])
        assert book.batch.passed == passes
