"""A thousand failures of several bugs in one kernel end in as many buckets, each with its own rule."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.common.three_bugs import sort_three_bugs


def test_a_thousand_failures_of_three_bugs_end_in_three_buckets(tmp_path: Path) -> None:
    sort_three_bugs(1000, tmp_path)
