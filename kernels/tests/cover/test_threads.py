"""The number of threads: torch shares one long row between them, the kernel of fixed order does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS, Entry, twin_of

PACK = load(Path(__file__).resolve().parents[2])
LENGTH, SEEDS = 2**16, 12
"""Twice the 2**15 elements from which torch uses threads; rows enough that rounding shows in some of them."""


def _row(seed: int) -> Case:
    layout = contiguous((1, LENGTH))
    x = np.random.default_rng(seed).standard_normal(layout.shape).astype("<f4")
    tensors = {"x": Tensor("f32", layout, x.tobytes())}
    outputs = {"y": Output("f32", layout), "rstd": Output("f32", contiguous((1,)))}
    return Case("rms_norm", {"axis": 1, "eps": 2.0**-10}, tensors, outputs)


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "verdicts"), [("eager", {"PASS", "FAIL_LAW"}), ("fixed-order", {"PASS"})])
def test_torch_shares_a_long_row_between_threads_unless_the_order_is_fixed(name: str, verdicts: set[str]) -> None:
    """Else the law would hold because nobody hears of the threads, and `eager` could declare it."""
    kernel = replace(PACK.kernel(name), laws=("threads",))
    (target,) = [target for target in expand([kernel], this_host()) if target.id.endswith("@cpu")]
    check = LawCheck(LAWS["threads"], 1)
    entries = [entry for seed in range(SEEDS) for entry in (Entry(_row(seed)), twin_of(_row(seed), check))]
    seen: set[Verdict] = set()
    with WorkerPool([target]) as pool:
        before = None
        for entry, outcomes in zip(entries, pool.submit([e.case for e in entries]).outcomes(), strict=True):
            before = EntryJudge(entry, outcomes, before)
            seen.add(before.judge(target).verdict)
    assert {verdict.value for verdict in seen} == verdicts


def test_torch_itself_declares_no_independence_of_threads() -> None:
    declaring = {kernel.name for kernel in PACK.kernels if "threads" in kernel.laws}
    assert "fixed-order" in declaring
    assert "eager" not in declaring
