"""What is learned of a kernel whose declaration is hidden: never that its contract is wrong, and none that is wider."""

from __future__ import annotations

import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.execute.pool import WorkerPool
from fuzz.uses.learn.evidence import gathered
from fuzz.uses.learn.learning import ALIKE, Learning
from oracles.ops import OPS

_CASES = 100
_PACK = load(built_in())


@pytest.mark.parametrize(
    ("kernel", "place"),
    [
        ("generic", "native"),
        ("avx2", "native"),
        ("sve", "qemu:vl=128"),
        ("weighted-llama", "native"),
        ("backward-generic", "native"),
        ("layer-norm-generic", "native"),
        ("layer-norm-native", "cpu"),
        ("softmax-online", "interpret"),
        ("layer-norm-moments", "native"),
    ],
)
def test_a_declared_contract_is_found_again_or_a_narrower_one(kernel: str, place: str) -> None:
    known = next(each for each in (*_PACK.kernels, *_PACK.mutated_kernels()) if each.name == kernel)
    targets = [each for each in expand([known]) if each.unavailable() is None and f"@{place}" in each.id][:2]
    assert targets, f"{kernel} has no target {place} here"
    with WorkerPool(targets) as pool:
        evidence = gathered(pool, targets, 1, _CASES, lambda: False)
    learning = Learning(OPS[known.op], evidence, lambda: False)
    found = learning.learned()
    assert found.whole
    first = found.fitting[0].contract
    if known.edits:  # a mutant that calculates the variance by moments, and says nothing of it
        assert not learning.runs.fits(known.contract)
        assert first.algorithm.get("var") == "moments"
        return
    declared = targets[0].contract
    assert learning.runs.fits(declared), "a correct kernel's own contract is never contradicted"
    assert learning.width(first, declared) <= ALIKE
