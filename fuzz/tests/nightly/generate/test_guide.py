"""Guidance finds what chance does not."""

from __future__ import annotations

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.toolchain import this_host
from fuzz.execute.pool import WorkerPool
from fuzz.quality.hunts import Hunt

PACK = load(built_in())


def test_guidance_finds_a_root_that_is_a_bit_short_where_chance_does_not() -> None:
    """Both have the same limit, and hear of what was judged as late as a run does."""
    (mutant,) = [mutant for mutant in PACK.mutants if mutant.name == "weighted-root-in-23-bits"]
    targets = expand([mutant.apply(PACK.kernel(mutant.base))], this_host())[:1]
    with WorkerPool(targets) as pool:
        hunt = Hunt(pool, targets, 1000)
        found = [
            [search(seed)[targets[0].id] is not None for seed in range(101, 105)]
            for search in (hunt.unguided, hunt.guided)
        ]
    assert sum(found[1]) > sum(found[0]) + 1
