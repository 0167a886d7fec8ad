"""Which targets the workers of a cluster are given."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fuzz.campaign.search.runner import slow_targets_of
from fuzz.campaign.search.turn_runner import SearchScope, TurnJob, TurnReport
from fuzz.campaign.search.wire import packed, taken
from fuzz.campaign.starting import select_targets
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.errors import UsageError
from fuzz.extras.fleet.cluster import Campaign, groups_by_need, needs_of, threads_for, workers_of
from fuzz.extras.fleet.executor import DaskExecutor, TurnOrder
from fuzz.extras.fleet.shard import FleetShard
from fuzz.findings.tally import Tally

GRAVITON = Host("aarch64", frozenset({"neon", "fp16", "sve"}))


def test_targets_go_to_workers_that_name_what_they_need() -> None:
    """A real processor and an emulated one are two targets of one case; what no worker names is asked of none."""
    kernels = load(built_in()).kernels
    targets = select_targets(
        kernels, "rms_norm", ("c-neon@*:gcc-O2,c-avx512@*:gcc-O2,torch@*,triton@*",), None, [GRAVITON]
    )
    by_id = {target.id: target for target in targets}
    assert {"c-neon@qemu:gcc-O2", "c-neon@native:gcc-O2"} <= by_id.keys()
    assert [target.id for target in targets if target.is_elsewhere] == ["c-neon@native:gcc-O2"]
    known = frozenset({"x86_64", "aarch64", "avx512", "gpu"})
    assert needs_of(by_id["c-neon@qemu:gcc-O2"], known) == {"x86_64"}
    assert needs_of(by_id["c-neon@native:gcc-O2"], known) == {"aarch64"}
    assert needs_of(by_id["c-avx512@native:gcc-O2"], known) == {"x86_64", "avx512"}
    on_device = [target for target in targets if target.name.site == "cuda"]
    assert {needs_of(target, known) for target in on_device} == {frozenset({"x86_64", "gpu"})}
    assert {needs_of(target, ()) for target in targets} == {frozenset()}

    groups, needs, quick = groups_by_need(targets, slow_targets_of(targets), known)
    assert needs.index(frozenset({"aarch64"})) < quick, "another machine takes every turn"
    assert sorted(name for group in groups for name in group) == sorted(by_id)
    workers = {
        "a": {"nthreads": 2, "resources": {"x86_64": 1.0}},
        "b": {"nthreads": 4, "resources": {"x86_64": 1.0, "avx512": 1.0}},
    }
    assert [threads_for(each, workers) for each in ((), ("x86_64",), ("avx512", "x86_64"), ("gpu",))] == [6, 6, 4, 0]


class _Ended:
    """The future of an order that a worker has carried out."""

    status = "finished"

    def __init__(self, said: dict[str, object]) -> None:
        self._said = said

    def result(self, timeout: float) -> str:
        return json.dumps(self._said)


def test_turns_that_were_taken_twice_count_once_and_under_an_old_token_never() -> None:
    campaign = Campaign("", False, "", (("c-k@native:gcc-O2",),), False, False, None, None)
    executor = DaskExecutor("dask://somewhere:8786", campaign, [frozenset()], SearchScope(()))
    task = TurnJob(0, "rms_norm", 5, 3)
    report = b64encode(packed(taken(TurnReport(task, Tally(cases=7)), 0, {}))).decode()
    for token, under in (("new", "new"), ("again", "old")):
        said: dict[str, object] = {"token": under, "taken": [report], "worker": "w"}
        executor._orders[token] = TurnOrder(0, (task,), token), cast(Any, _Ended(said))
    for token in ("new", "new", "again"):
        executor._joined(token)
    assert [each.tally.cases for each in executor._ended] == [7]
    assert executor.dropped == 2


def test_that_no_worker_is_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that counts cases waits for one for as long as it takes."""
    monkeypatch.setattr("fuzz.extras.fleet.cluster.workers_of", lambda client: {})
    campaign = Campaign("", False, "", (("c-k@native:gcc-O2",),), False, False, None, None)
    executor = DaskExecutor(
        "dask://somewhere:8786", campaign, [frozenset()], SearchScope(()), client=cast(Any, object())
    )
    told = list[str]()
    executor.watch = lambda waits: told.extend(f"waiting for {each.target}: {each.words}" for each in waits)
    assert executor.take(0.0) is None
    assert told == ["waiting for a worker of dask://somewhere:8786: none is there, 0 s"]


def test_which_workers_there_are_is_asked_of_the_scheduler_itself() -> None:
    """What a client remembers has no workers, wherever it has just looked whether the scheduler is there."""

    class Forgetful:
        scheduler = SimpleNamespace(identity=lambda n_workers: {"workers": {"w": {"nthreads": 2}} if n_workers else {}})

        def sync(self, asked: Callable[..., Any], **how: int) -> Any:
            return asked(**how)

        def scheduler_info(self, n_workers: int = 5) -> Any:
            return self.scheduler.identity(n_workers=0)

    assert workers_of(cast(Any, Forgetful())) == {"w": {"nthreads": 2}}


class _Pending:
    """The future of an order that nobody carries out."""

    def result(self, timeout: float) -> str:
        raise TimeoutError


class _Client:
    def close(self, timeout: float) -> None:
        """Do nothing."""


def test_a_worker_that_is_silent_at_the_start_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask would wait for it for minutes. Who is heard of may take as long as its kernels do."""
    heard, now = iter(range(1000)), iter(range(0, 10000, 5))
    there: dict[str, dict[str, Any]] = {"silent": {"last_seen": 1.0, "nthreads": 2}, "busy": {"nthreads": 2}}
    monkeypatch.setattr(
        "fuzz.extras.fleet.cluster.workers_of",
        lambda client: {**there, "busy": {**there["busy"], "last_seen": float(next(heard))}},
    )
    monkeypatch.setattr("fuzz.extras.fleet.executor.time.monotonic", lambda: float(next(now)))
    campaign = Campaign("", False, "", (("c-k@native:gcc-O2",),), False, False, None, None)
    executor = DaskExecutor("dask://s", campaign, [frozenset()], SearchScope(()), client=cast(Any, _Client()))
    executor._look()
    assert executor._started("silent", cast(Any, _Pending())) == {"missing": {}, "attested": {}}
    executor._look()
    assert [*executor._workers] == ["busy"]
    assert executor.words.startswith("1 worker of Dask, 1 more silent at the start and left out, ")
    there["busy"]["nthreads"] = 1
    monkeypatch.setattr("fuzz.extras.fleet.cluster.workers_of", lambda client: {"busy": {"last_seen": 1.0}})
    with pytest.raises(UsageError, match=r"^--engine dask://s: the worker busy is silent for 120 s at its start$"):
        executor._started("busy", cast(Any, _Pending()))


def test_a_process_of_kernels_that_is_silent_at_its_start_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr("fuzz.extras.fleet.shard._SILENT_S", 0.05)
    monkeypatch.setattr("fuzz.extras.fleet.shard._LOOK_S", 0.01)
    shard = FleetShard({}, 0)
    shard.wait_ready()
    assert (shard.failed, shard.usage) == ("says nothing for 0 s at the start of its process, which is ended", True)
