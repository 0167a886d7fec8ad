"""A kernel with three bugs, and how its failures are sorted."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from fuzz.campaign.explaining import explain_findings
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import Interruption, SessionLimits
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.core.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from fuzz.findings.casefile import load
from fuzz.tests.common.hunting import GENERIC, TAIL_63, target_of, with_edits

_SCALED = "y[i] = x[i] * rstd;"
_ENTRY = (
    "{ return each_row(",
    "{\n    in_place = call->x.data == call->y.data && call->x.dtype == KF_F32;\n    return each_row(",
)
_HEAD = ("static void generic_row(", "static int in_place;\n\nstatic void generic_row(")
THREE = with_edits(
    TAIL_63,
    _HEAD,
    _ENTRY,
    # In place of f32 the first element of a row is scaled twice; rows of at most four are divided by one too many.
    (_SCALED, "y[i] = x[i] * rstd * (in_place && i == 0 && n > 4 ? 1.5f : 1.0f);"),
    ("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n <= 4 ? n + 1 : n, eps)"),
    name="three",
)


def sort_three_bugs(count: int, folder: Path) -> None:
    """Fails unless so many failures of the three bugs end in three buckets, each with its rule."""
    target = target_of(THREE, "O2")
    book = book_in(folder, 1)
    with WorkerPool([target]) as pool:
        runner = Runner(pool, [target], SessionLimits(), book, SearchScope([GENERIC]))
        runner.enough = lambda tally: tally.findings >= count
        runner.run("rms_norm", 1)
        assert runner.tally.findings >= count
        explain_findings(book, pool, [target], 600.0, Console(file=io.StringIO()), Interruption())
    buckets = list(book.buckets.values())
    rules = sorted(str(b.found.diagnosis.rule) for b in buckets if b.found.diagnosis is not None)
    assert len(buckets) == 3, rules
    assert sum(bucket.count for bucket in buckets) == runner.tally.findings
    for trigger in ("n mod 64 = 63", "y in place of x = yes", "n <= 4"):
        assert sum(trigger in rule for rule in rules) == 1, rules
    files = sorted(folder.iterdir())
    assert len(files) == 3
    assert all((load(path)[1] or pytest.fail("no record")).explanation for path in files)
