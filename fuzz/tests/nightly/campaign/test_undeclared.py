"""Mutants of the built-in kernels stay caught where nothing is declared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.campaign.search.stopping import Interruption
from fuzz.campaign.selftest import hunt
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.base.kernel import Mutant
from fuzz.quality.calibrate.verb import without
from fuzz.report import console
from oracles.ops import OPS

_PACK = load(built_in())
_LOST = (
    # right by another algorithm of the op
    "layer-norm-moments", "layer-norm-apart", "softmax-folded-base",
    # right by a reciprocal, by which nearly no tie is one
    "quantize-rows-by-reciprocal", "quantize-rows-half-away", "nvfp4-half-away",
    # right where additions are associated in another way, as x - logsumexp(x) has them
    "log-softmax-added-first",
    # off by less than functions within 4 ulp and sums in any order are
    "weighted-root-in-23-bits", "weighted-eps-in-21-bits",
    # right where a value may be rounded on its way
    "silu-mul-silu-rounded", "silu-mul-backward-dup-of-rounded-silu",
    # not judged where a scale of so few bits may be rounded on its way: its bound has a zero, whose quotients are any
    "quantize-rows-wraps",
    # right where a zero may have either sign, as the exact value has none
    "nvfp4-zero-without-sign",
)  # fmt: skip
_CASES = 600
_QUICK = [
    each
    for each in _PACK.mutants
    if _PACK.kernel(each.base).kind == "c"
    and any("native" in t for t in each.targets)
    and "tf32" not in each.base  # that factors are cut to it has to be declared
]


@pytest.mark.parametrize("mutant", _QUICK, ids=lambda each: each.name)
def test_a_mutant_is_caught_where_nothing_is_declared(mutant: Mutant) -> None:
    """Where it is with its contract, in as many cases, and judged for all that can be asked for. Without a contract a
    law may be the first thing that it breaks, as fewer of its values are too far off."""
    base = _PACK.kernel(mutant.base)
    contract = without(OPS[base.op], strict=True)
    loose = replace(
        _PACK, kernels=tuple(replace(each, contract=contract) if each is base else each for each in _PACK.kernels)
    )
    on_this = replace(mutant, targets=tuple(target for target in mutant.targets if "native" in target))
    by_law = replace(on_this, caught_as=(*mutant.caught_as, "FAIL_LAW"))
    declared, undeclared = (
        hunt(pack, each, 1, _CASES, 1, console.silent(), Interruption("done"))
        for pack, each in ((_PACK, on_this), (loose, by_law))
    )
    if declared.not_run or not declared.passed:
        pytest.skip(declared.not_run or f"{_CASES} cases are too few")
    assert undeclared.passed == (mutant.name not in _LOST), [each.trouble for each in undeclared.hunts]
