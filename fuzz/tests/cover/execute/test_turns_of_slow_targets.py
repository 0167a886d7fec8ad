"""Slow targets are skipped by the count of batches, and not where there is nobody to wait for them."""

from __future__ import annotations

from fuzz.adapters.registry import expand
from fuzz.adapters.toolchain import this_host
from fuzz.tests.common.hunting import PACK
from fuzz.uses.search.groups import CountedSchedule, slow_targets_of

TARGETS = [t for t in expand(PACK.kernels, this_host()) if t.kernel.name in ("generic", "dual")]
SLOW = frozenset({"triton-dual@interpret"})


def test_slow_targets_are_skipped_where_quicker_ones_would_wait() -> None:
    assert slow_targets_of(TARGETS) == SLOW
    assert slow_targets_of([target for target in TARGETS if target.slow]) == frozenset()


def test_slow_targets_get_the_first_batches_and_then_one_in_so_many() -> None:
    schedule = CountedSchedule(frozenset({"other"}), SLOW, 8, first=2)
    given = [number for number in range(20) if schedule() == {"other"}]
    assert given == [0, 1, 8, 16]
