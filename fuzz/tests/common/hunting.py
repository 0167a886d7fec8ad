"""Planted kernels of the built-in pack's generic source, and the failures that a search finds in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Output, Tensor
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.layouts import lay_out
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import Entry, declared, with_twins

PACK = load(built_in())
GENERIC = PACK.kernel("generic")
TAIL_63 = (
    "for (size_t i = 0; i < n; i++) total += x[i] * x[i];",
    "for (size_t i = 0; i < n; i++) if (i < n - n % 64 || n % 64 != 63) total += x[i] * x[i];",
)
"""the tail is left out of the sum where n mod 64 = 63."""

Failure = tuple[Case, Judgement]


def with_edits(*edits: tuple[str, str], name: str = "planted") -> Kernel:
    """The generic kernel with defects planted."""
    return replace(GENERIC, name=name, edits=edits)


def mutant(name: str) -> Kernel:
    """A mutant of the built-in pack."""
    return next(kernel for kernel in PACK.mutated_kernels() if kernel.name == name)


def target_of(kernel: Kernel, ending: str = "") -> Target:
    """The kernel's first target that runs here and whose name ends so."""
    assert isinstance(kernel, CKernel)
    targets = [t for t in expand([kernel], this_host()) if t.unavailable() is None and t.id.endswith(ending)]
    return targets[0]


def given_case(shape: tuple[int, ...], axis: int, layout: str = "padded", eps: float = 0.25) -> Case:
    """A case of f32 with normal values, laid out in an odd way."""
    values = np.random.default_rng(3).standard_normal(shape).astype("<f4")
    x = Tensor("f32", lay_out(layout, shape, axis, 2, "after", 5), values.tobytes())
    params = {"eps": eps, "axis": axis}
    return Case("rms_norm", params, {"x": x}, {"y": Output("f32", lay_out(layout, shape, axis, 3, "before", 1))})


def failing(pool: WorkerPool, target: Target, case: Case) -> Failure:
    """The case with its judgement on the target, which must be a failure."""
    (outcomes,) = pool.submit([case]).outcomes()
    judgement = EntryJudge(Entry(case), outcomes).judge(target)
    assert judgement.verdict.is_finding, judgement
    return case, judgement


def failures(pool: WorkerPool, target: Target, count: int, seed: int = 7, most: int = 4000) -> list[Failure]:
    """The first `count` failures that a search finds on the target, by its laws too."""
    found: list[Failure] = []
    laws = declared([target.kernel])
    sent = 0
    for made in batches(Search(target.kernel.op, seed, [target.kernel])):
        entries = with_twins([each.case for each in made], laws, 2)
        sent += len(entries)
        before = None
        for entry, outcomes in zip(entries, pool.submit([e.case for e in entries]).outcomes(), strict=True):
            before = EntryJudge(entry, outcomes, before)
            if target.id in outcomes:
                judgement = before.judge(target)
                if judgement.verdict.is_finding:
                    found.append((before.evidence(judgement), judgement))
        if len(found) >= count or sent > most:
            break
    return found[:count]
