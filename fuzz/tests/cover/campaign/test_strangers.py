"""Mutated case files, a thousand of the hundred thousand of every night: read, replayed, exported; nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.hunting import PACK
from fuzz.tests.common.programs import target_on
from fuzz.tests.common.strangers import Reader, hostile_files, listing, real_files
from oracles.tests.common.whole import quarter


def read_hostile_files(folder: Path, count: int, seed: int, every: int) -> Reader:
    """All of them, in one process that stays in `folder`, where nothing else may appear."""
    target, python = target_on(PACK.kernel("generic"), "native:gcc-O2"), target_on(
        PACK.kernel("vector-generic"), "@interpret"
    )  # fmt: skip
    with WorkerPool([target], bounded=False) as pool:
        reader = Reader(folder, pool, {target.id: target}, python, every)
        for content in hostile_files(count, seed, real_files()):
            reader.read(content)
    assert list(listing(folder)) == ["case.json"]
    return reader


def test_mutated_case_files_are_refused_in_one_line_or_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    count = quarter(1000)
    seen = read_hostile_files(tmp_path, count, seed=14, every=25).seen
    assert seen["files"] == count
    assert seen["refused"] > count / 2, seen
    assert seen["loaded"] > count / 10, seen
    for done in ("replayed: PASS", "programs in c", "programs in py"):
        assert seen[done] > 0, seen
