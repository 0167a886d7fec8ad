"""Slow targets are skipped by the count of batches, and not where there is nobody to wait for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.campaign.search import runner
from fuzz.campaign.search.runner import CountedSchedule, groups_of, processes_for, slow_targets_of
from fuzz.core.adapters.cuda import sanitized
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.tests.common.hunting import PACK

TARGETS = [t for t in expand(PACK.kernels, this_host()) if t.kernel.name in ("generic", "dual")]
SLOW = frozenset({"triton-dual@interpret"})


def test_slow_targets_are_skipped_where_quicker_ones_would_wait() -> None:
    assert slow_targets_of(TARGETS) == SLOW
    assert slow_targets_of([target for target in TARGETS if target.slow]) == frozenset()


def test_slow_targets_get_the_first_batch_and_then_one_in_so_many() -> None:
    schedule = CountedSchedule(SLOW, 8)
    skipped = [schedule() for _ in range(20)]
    assert [number for number, some in enumerate(skipped) if not some] == [0, 8, 16]
    assert {*skipped} == {frozenset(), SLOW}


def test_processes_of_watched_targets_have_one_tool_each_and_several_processors_several() -> None:
    torch = [target for target in expand(PACK.kernels, this_host()) if target.id == "torch-eager@cuda"]
    watched = [leg for target in torch for leg in sanitized(target)]
    quick, *slow = groups_of([*TARGETS, *torch, *watched], processes=1)
    assert {target.id for target in TARGETS if target.id not in SLOW} < {*quick}
    assert sorted(slow) == sorted([*((leg.id,) for leg in watched), (*SLOW,)])
    _, *slow = groups_of([*TARGETS, *torch, *(replace(leg, name=replace(leg.name, kernel=f"k{number}"))
                                             for number in range(9) for leg in watched)], processes=8)  # fmt: skip
    assert sorted(len(group) for group in slow) == [1, 4, 4, 4, 5, 5, 5]
    assert all(len({name.rpartition("=")[2] for name in group}) == 1 for group in slow)


def test_a_gpu_has_room_for_the_contexts_of_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of plain targets, one more beside it for watched ones, and of these alone one for each tool."""
    monkeypatch.setattr(Target, "unavailable", lambda self: None)
    monkeypatch.setattr("fuzz.core.adapters.cuda.free_device_memory", lambda: (12 * runner._CONTEXT_BYTES,))
    plain = [target for target in expand(PACK.kernels, this_host()) if target.id == "torch-eager@cuda"]
    watched = [leg for target in plain for leg in sanitized(target)]
    most = [min(processes_for(chosen, 64, None), 64) for chosen in (plain, [*plain, *watched], watched, watched[:1])]
    assert most == [12, 6, 4, 12]
