"""Slow targets rest by the count of batches, and not where there is nobody to wait for them."""

from __future__ import annotations

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.toolchain import this_host
from fuzz.uses.search.resting import Resting, slow_ones

TARGETS = [t for t in expand(load(built_in()).kernels, this_host()) if t.kernel.name in ("generic", "dual")]
SLOW = frozenset({"triton-dual@interpret"})


def test_slow_targets_rest_where_quicker_ones_would_wait() -> None:
    assert slow_ones(TARGETS) == SLOW
    assert slow_ones([target for target in TARGETS if target.slow]) == frozenset()


def test_slow_targets_get_the_first_batches_and_then_one_in_so_many() -> None:
    resting = Resting(frozenset({"other"}), SLOW, 8, first=2)
    given = [number for number in range(20) if resting() == {"other"}]
    assert given == [0, 1, 8, 16]
