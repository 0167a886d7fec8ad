"""Kernels in Triton and torch, judged by the oracle on cases that a search draws for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import PythonKernel
from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from oracles.ops import OPS

KERNELS = [k for k in load(Path(__file__).resolve().parents[2]).kernels if isinstance(k, PythonKernel)]
CASES, MOST = 24, 320
"""as many as it takes until every kernel was given one."""


@pytest.mark.parametrize("op", OPS)
def test_nothing_is_found(op: str, tmp_path: Path) -> None:
    """On a processor: Triton's interpreter and torch. Each kernel is really run and judged."""
    kernels = [kernel for kernel in KERNELS if kernel.op == op]
    targets = [target for target in expand(kernels, this_host()) if not target.id.endswith("@cuda")]
    with WorkerPool(targets) as pool:
        for target in targets:
            assert not isinstance(pool.statuses[target.id], NotRun), pool.statuses[target.id]
        book = book_in(tmp_path, 7)
        runner = Runner(pool, targets, SessionLimits(max_cases=MOST), book)
        runner.enough = lambda tally: tally.cases >= CASES and all(one.judged for one in tally.targets.values())
        tally = runner.run(op, 7)
    assert not book.buckets
    assert {name for name, one in tally.targets.items() if one.judged} == {target.id for target in targets}
