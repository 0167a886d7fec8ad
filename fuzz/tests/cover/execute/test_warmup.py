"""A kernel that is declared slow is at work before its search; no other is given anything."""

from __future__ import annotations

from pathlib import Path

from fuzz.base.outcome import Status
from fuzz.execute.pool import WorkerPool
from fuzz.tests.common.python_planted import python_target
from fuzz.uses.search.turns import warm_up

COPIES = "def rms_norm(x, y, **others):\n    y.copy_(x)\n"


def test_only_slow_kernels_are_given_cases_ahead(tmp_path: Path) -> None:
    folders = tmp_path / "slow", tmp_path / "quick"
    for folder in folders:
        folder.mkdir()
    slow = python_target(folders[0], COPIES, slow=True)
    quick = python_target(folders[1], COPIES)
    with WorkerPool([slow], cache=tmp_path / "cache") as pool:
        (batch,) = warm_up(pool, [slow])
        found = batch.outcomes()
    assert [each[slow.id].status for each in found] == [Status.RAN] * len(slow.kernel.capabilities.dtypes)
    with WorkerPool([quick], cache=tmp_path / "cache") as pool:
        assert warm_up(pool, [quick]) == []
