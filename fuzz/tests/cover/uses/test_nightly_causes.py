"""A night sorts what it finds by its causes, whatever session found it, and keeps the calls that a failure needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz.findings.casefile import load
from fuzz.tests.common.hunting import target_of, with_edits
from fuzz.tests.common.nights import nights_of

_EPS = "reciprocal_rms(total, n, eps)"
_FIRST_EPS = (_EPS, "({ static float first = -1; if (first < 0) first = eps; reciprocal_rms(total, n, first); })")


def test_a_kernel_that_keeps_state_ends_in_one_bucket_with_its_fewest_calls(tmp_path: Path) -> None:
    """Once it is mended, the replay of its calls says so."""
    kernel = with_edits(_FIRST_EPS, name="keeps-eps")
    nights = nights_of(tmp_path, target_of(kernel, "O2"), 60, 60)
    for status in ("new", "still fails"):
        [bucket] = next(nights)
        assert (bucket.status, bucket.row.need) == (status, "needs history")
        assert "needs history: passes alone in a fresh process, fails there after 1 earlier call: eps " in (
            bucket.row.explanation
        )
        case, found = load(tmp_path / "findings" / bucket.row.case_file)
        assert found is not None
        [call] = found.history
        assert call.inputs == case.inputs
        assert {**call.params, "eps": 0} == {**case.params, "eps": 0}
    [[bucket]] = nights_of(tmp_path, target_of(replace(kernel, edits=()), "O2"), 1)
    assert bucket.status == "passes now"
