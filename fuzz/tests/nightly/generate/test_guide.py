"""Guidance finds what chance does not."""

from __future__ import annotations

from fuzz.campaign.search.schedule import one_by_one
from fuzz.campaign.search.turn_runner import SearchScope, TurnRunner
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.laws.registry import Entry

PACK = load(built_in())
LIMIT = 1000
"""The most cases of one search."""


def found_by_chance(pool: WorkerPool, target: Target, seed: int) -> bool:
    """Return whether a search finds the bug whose cases do not depend on what was judged."""
    tried = 0
    for made in batches(Search(target.kernel.op, seed, [target.kernel])):
        cases = [each.case for each in made][: LIMIT - tried]
        for case, outcomes in zip(cases, pool.submit(cases).outcomes(), strict=True):
            if EntryJudge(Entry(case), outcomes).judge(target).verdict.is_finding:
                return True
        tried += len(cases)
        if tried >= LIMIT:
            break
    return False


def found_by_guidance(pool: WorkerPool, target: Target, seed: int) -> bool:
    """Return whether a run's own search finds the bug, which hears of what was judged as late as a run does."""
    findings: list[bool] = []

    def see(judge: EntryJudge) -> None:
        findings.append(target.id in judge.outcomes and judge.judge(target).verdict.is_finding)

    turn_runner = TurnRunner(pool, [target], SearchScope([target.kernel], groups=([target.id], [])), see)
    for _ in one_by_one(turn_runner, target.kernel.op, seed):
        if len(findings) >= LIMIT or any(findings):
            break
    return any(findings[:LIMIT])


def test_guidance_finds_a_root_that_is_a_bit_short_where_chance_does_not() -> None:
    """Both have the same limit."""
    (mutant,) = [mutant for mutant in PACK.mutants if mutant.name == "weighted-root-in-23-bits"]
    target = expand([mutant.apply(PACK.kernel(mutant.base))], this_host())[0]
    with WorkerPool([target]) as pool:
        chance, guidance = (
            sum(search(pool, target, seed) for seed in range(101, 105))
            for search in (found_by_chance, found_by_guidance)
        )
    assert guidance > chance + 1
