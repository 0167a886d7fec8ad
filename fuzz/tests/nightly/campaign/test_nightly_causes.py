"""A night sorts several bugs of one kernel by their causes; one of them may need earlier calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.diagnosis import diagnose
from fuzz.explain.finding import Finding
from fuzz.findings import explainer
from fuzz.findings.casefile import load
from fuzz.findings.codec import rule_from_text
from fuzz.tests.common.hunting import TAIL_63, failing, target_of, with_edits
from fuzz.tests.common.nights import nights_of
from fuzz.tests.common.shared_pack import OWN, SHARED, planted

_EPS = "reciprocal_rms(total, n, eps)"


_FIRST_EPS = (_EPS, "({ static float first = -1; if (first < 0) first = eps; reciprocal_rms(total, n, first); })")


_TWICE_8 = (TAIL_63[0], TAIL_63[0].replace("x[i] * x[i]", "x[i] * x[i] * (n % 8 == 7 ? 2 : 1)"))


_SHORT = (_EPS, "reciprocal_rms(total, n <= 4 ? n + 1 : n, eps)")


def test_two_bugs_in_one_kernel_end_in_two_buckets_and_stay_there(tmp_path: Path) -> None:
    """The second night tells them apart by the rules that the first has kept: nothing is explained again."""
    target = target_of(with_edits(TAIL_63, _SHORT, name="two"), "O2")
    before: list[str] = []
    for buckets in nights_of(tmp_path, target, 120, 60):
        rules = {bucket.row.signature: str(rule_from_text(bucket.row.core)) for bucket in buckets}
        assert set(rules) == {"two-values", "two-values+2"}, rules
        for trigger in ("n mod 64 = 63", "n <= 4"):
            assert sum(trigger in rule for rule in rules.values()) == 1, rules
        assert all(bucket.sightings for bucket in buckets), "each is seen in each night"
        assert before in ([], sorted(rules.values()))
        before = sorted(rules.values())


def test_a_bug_that_shows_by_itself_is_not_lost_beside_one_that_needs_calls(tmp_path: Path) -> None:
    target = target_of(with_edits(_FIRST_EPS, _TWICE_8, name="both"), "O2")
    [buckets] = nights_of(tmp_path, target, 200)
    # The twin of a case is a call after it: an eps that is kept may break the scaling law by itself.
    by_value = [bucket for bucket in buckets if bucket.row.signature != "both-law-scaling"]
    needs = {bucket.row.need: bucket for bucket in by_value}
    assert sorted(needs) == ["fails alone", "needs history"]
    assert len(by_value) == 2, [bucket.row.signature for bucket in buckets]
    plain = needs["fails alone"]
    assert str(rule_from_text(plain.row.core)) == "n mod 8 = 7"
    case, found = load(tmp_path / "findings" / plain.row.case_file)
    assert found is not None
    assert found.history == ()
    with WorkerPool([target]) as pool:
        assert failing(pool, target, case)
    assert case.inputs["x"].layout.shape[int(case.params["axis"])] % 8 == 7


def test_a_kernel_that_keeps_state_ends_in_one_bucket_with_its_fewest_calls(tmp_path: Path) -> None:
    """Once it is mended, the replay of its calls says so."""
    kernel = with_edits(_FIRST_EPS, name="keeps-eps")
    nights = nights_of(tmp_path, target_of(kernel, "O2"), 60, 60)
    for status in ("new", "still fails"):
        [bucket] = next(nights)
        assert (bucket.status, bucket.row.need) == (status, "needs history")
        assert "needs history: passes alone in a fresh process, fails there after 1 earlier call: eps " in (
            bucket.told.note
        )
        case, found = load(tmp_path / "findings" / bucket.row.case_file)
        assert found is not None
        [call] = found.history
        assert call.inputs == case.inputs
        assert {**call.params, "eps": 0} == {**case.params, "eps": 0}
    [[bucket]] = nights_of(tmp_path, target_of(replace(kernel, edits=()), "O2"), 1)
    assert bucket.status == "passes now"


def test_one_bug_in_a_source_that_two_kernels_share_stays_one_bucket(tmp_path: Path) -> None:
    """Found on both in each night; a bug of the one kernel alone is another bucket."""
    for number, buckets in enumerate(nights_of(tmp_path, planted(tmp_path, SHARED, OWN), 60, 30)):
        rules = {bucket.row.kernel: str(rule_from_text(bucket.row.core)) for bucket in buckets}
        assert len(buckets) == 2, [bucket.row.signature for bucket in buckets]
        assert rules == {"generic": "n mod 64 = 63", "routed": "n mod 16 = 5"}
        assert {bucket.status for bucket in buckets} == {"still fails" if number else "new"}
        both = next(bucket for bucket in buckets if bucket.row.kernel == "generic")
        assert len(both.sightings) == 2
        assert both.told.attribution is not None
        assert both.told.attribution.cause == "the shared source generic.c"


def test_a_rule_that_there_was_no_time_to_learn_makes_no_further_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Explained in part, the bucket takes every finding; it is tried again, and no more often than it may be."""
    asked = []

    def hasty(*arguments: Any, **options: Any) -> Finding:
        asked.append(arguments)
        found = diagnose(*arguments, **options)
        assert found.core is not None
        assert found.diagnosis is not None
        return replace(found, diagnosis=replace(found.diagnosis, whole=False))

    monkeypatch.setattr(explainer, "diagnose", hasty)
    target = target_of(with_edits(TAIL_63, name="one"), "O2")
    [[bucket]] = nights_of(tmp_path, target, 12)
    assert (bucket.row.signature, bucket.row.core, bucket.row.need) == ("one-values", "", "fails alone")
    assert bucket.told.explained == "in part"
    assert len(asked) == 3
