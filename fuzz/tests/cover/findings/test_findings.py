"""The finding book keeps the smallest case of each bucket, on disk at once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from fuzz.core.base.case import Case
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.turn import BATCH, PLACES
from fuzz.core.judge.judge import Judgement
from fuzz.explain.diagnosis import TimeShares
from fuzz.findings.book import book_in
from fuzz.findings.casefile import load
from fuzz.findings.explainer import Explainer
from fuzz.findings.tally import Tally, TargetTally
from fuzz.report.brief import brief_of
from fuzz.tests.common.examples import plain
from fuzz.tests.common.hunting import failing, given_case, target_of, with_edits
from oracles.truth import OutputCheck


def _case(n: int, dtype: str = "f32") -> Case:
    return plain(n, dtype=dtype)


def _judgement(case: Case, verdict: Verdict = Verdict.FAIL_NUMERIC, ratio: float = 2.0) -> Judgement:
    worst = OutputCheck("y", "pass", (0, 0), ratio) if verdict is Verdict.PASS else None
    return Judgement("c-k@native:gcc-O2", case.digest, verdict, ratio, worst)


def test_a_smaller_case_replaces_a_larger_one_and_not_the_other_way(tmp_path: Path) -> None:
    book = book_in(tmp_path, 7)
    for n in (50, 70, 5, 9):
        book.add("k", _case(n), _judgement(_case(n)), {})
        assert len(list(tmp_path.iterdir())) == 1
    (bucket,) = book.buckets.values()
    assert bucket.count == 4
    case, found = load(next(tmp_path.iterdir()))
    assert case == _case(5)
    assert found is not None
    assert (found.run_seed, found.verdict) == (7, "FAIL_NUMERIC")


def test_verdicts_and_kernels_have_their_own_buckets(tmp_path: Path) -> None:
    book = book_in(tmp_path, 7)
    book.add("a", _case(5), _judgement(_case(5)), {})
    book.add("b", _case(5), _judgement(_case(5)), {})
    book.add("a", _case(5), _judgement(_case(5), Verdict.CRASH), {})
    assert len(book.buckets) == len(list(tmp_path.iterdir())) == 3


def test_a_disk_that_takes_no_file_keeps_the_finding_and_says_so() -> None:
    book = book_in(Path("/proc/nowhere"), 7)
    bucket = book.add("a", _case(5), _judgement(_case(5)), {})
    assert bucket.count == 1
    assert bucket.path is None
    assert "cannot be written" in book.trouble


def test_the_tally_counts_findings_and_worst_passes_apart() -> None:
    target = TargetTally("c-k@native:gcc-O2", "k")
    target.count(_case(5), _judgement(_case(5), Verdict.PASS, 0.25))
    target.count(_case(9), _judgement(_case(9), Verdict.PASS, 0.75))
    target.count(_case(9, "f16"), _judgement(_case(9, "f16"), Verdict.PASS, 0.5))
    target.count(_case(7), _judgement(_case(7), Verdict.FAIL_NUMERIC, 99.0))
    target.count(_case(7), Judgement(target.target, "", Verdict.NOT_RUN, reason="gone"))
    target.count(_case(7), Judgement(target.target, "", Verdict.ORACLE_GAVE_UP))
    tally = Tally({target.target: target})
    assert (tally.judged, tally.findings, tally.gave_up, target.not_run) == (5, 1, 1, 1)
    assert target.worst["f32"].where == "2x9 normal"
    assert {dtype: worst.ratio for dtype, worst in target.worst.items()} == {"f32": 0.75, "f16": 0.5}


def test_a_case_that_is_undecided_is_named_if_it_can_be_made_again() -> None:
    line, case = TargetTally("c-k@native", "k"), _case(7)
    for shard, number in ((3, PLACES + BATCH), (3, PLACES + BATCH + 1), (None, 0)):  # the second is a guide's
        made = replace(case, origin=replace(case.origin, shard=shard, number=number))
        line.count(made, Judgement(line.target, "", Verdict.ORACLE_GAVE_UP))
    assert (line.gave_up, line.undecided) == (3, f"rms_norm:3:{PLACES + BATCH}")


def test_what_there_was_no_time_for_says_so_with_the_option_that_gives_more(tmp_path: Path) -> None:
    """As at night, where all is looked at later."""
    book = book_in(tmp_path, 7)
    bucket = book.add("k", _case(5), _judgement(_case(5)), {})
    with WorkerPool([]) as pool:
        Explainer(pool, (), book, TimeShares(1.0, option="--explain-time", later=True)).explain_all(0.5)
    said = "not explained, and shown as it was found: the time for all, 0.5 s, is too short; --explain-time gives more"
    assert (bucket.told.note, bucket.told.option) == (said, "--explain-time")


def test_what_is_split_off_for_lack_of_time_still_tells_what_the_kernel_returned(tmp_path: Path) -> None:
    target, case = target_of(with_edits(("total += x[i] * x[i];", "total += x[i];"))), given_case((2, 3), 1)
    book = book_in(tmp_path, 7)
    book.targets = {target.id: target}
    with WorkerPool([target]) as pool:
        bucket = book.add(target.kernel.name, *failing(pool, target, case), {})
    apart = book.open(bucket, bucket.pile.findings)
    assert brief_of(apart.told).outcome == brief_of(bucket.told).outcome
    assert re.fullmatch(r"y\[\d, \d\] = \S+, must be \S+ \(or .+\)", brief_of(apart.told).outcome)
