"""A cluster of Dask: how it is reached, what its workers offer, and which targets they shall be given."""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future as Answer
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from fuzz.adapters.target import Target
from fuzz.base.errors import UsageError
from fuzz.findings.database import EXTRA

if TYPE_CHECKING:
    from distributed import Client

SCHEME = "dask://"
_PATIENCE_S = 30
"""A scheduler and its first worker are waited for so many seconds, and so is each answer of either: as long as Dask
itself waits for a connection."""
AWAY_S = 120.0
"""A scheduler or a worker of which nothing is heard for so many seconds is given up: Dask would wait for minutes, and
with it all others. It is four times what Dask allows for a connection: with 8 to 40 processes for 2 processors, 30
seconds were not enough for 3 of 5 workers to say who they are."""
_SHARE = 1 / 1024
"""What one order takes of a resource: a worker has it or not."""

_T = TypeVar("_T")


def within(asked: Callable[[], _T], seconds: float = _PATIENCE_S) -> _T:
    """What a cluster answers. Raises TimeoutError where that takes longer: a machine that is stopped, or whose network
    is gone, is waited for without an end by most of what Dask offers."""
    answer = Answer[_T]()

    def ask() -> None:
        try:
            answer.set_result(asked())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer.result(seconds)


def connected(engine: str) -> Client:
    """A client of the scheduler. Raises UsageError where there is none, or it has no workers."""
    if find_spec("distributed") is None:
        raise UsageError(f"--engine {engine}: dask is not installed: {EXTRA}")
    import dask
    from distributed import Client

    scheme = "tls" if dask.config.get("distributed.comm.tls.ca-file", None) else "tcp"
    # What happens is said once, and here. Dask gives its client a level of its own.
    for name in ("distributed", "distributed.client", "asyncio", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        address = engine.replace(SCHEME, f"{scheme}://")
        client = within(lambda: Client(address, timeout=_PATIENCE_S, set_as_default=False), _PATIENCE_S + 2)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        said = str(error).partition("\n")[0] or f"it says nothing for {_PATIENCE_S} seconds"
        raise UsageError(f"--engine {engine}: no scheduler of Dask answers there: {said}") from error
    try:
        client.wait_for_workers(1, timeout=_PATIENCE_S)
    except TimeoutError as error:
        client.close()
        raise UsageError(f"--engine {engine}: the scheduler has no workers: start some with dask worker") from error
    return client


def workers_of(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """What the scheduler knows of each worker, by its address. Raises TimeoutError."""
    # `scheduler_info` may return what the client has asked for itself meanwhile, every two seconds: without workers.
    said: Any = within(lambda: client.sync(client.scheduler.identity, n_workers=-1))
    found: Mapping[str, Mapping[str, Any]] = said["workers"]
    return found


def offered(workers: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The resources that some worker names."""
    return frozenset(name for worker in workers.values() for name in worker["resources"])


def needs_of(target: Target, known: Collection[str]) -> frozenset[str]:
    """The resources that a worker must have to be given the target, as far as the cluster names any such."""
    arch = target.host.arch if target.host is not None else platform.machine()
    needs = {arch}
    if target.shares or target.sanitizable or target.sanitizer:
        needs.add("gpu")
    if target.emulator is None and any("avx512" in flag for flag in target.flags):
        needs.add("avx512")
    return frozenset(needs & {*known})


def requested(needs: Collection[str]) -> dict[str, float]:
    """The same in the words of Dask."""
    return dict.fromkeys(sorted(needs), _SHARE)


def groups_by_need(
    targets: Sequence[Target], slow: Collection[str], known: Collection[str]
) -> tuple[list[tuple[str, ...]], list[frozenset[str]], int]:
    """The targets by what a worker needs for them, what that is for each group, and how many groups there are of quick
    ones. The first group is the largest of those."""
    quick, rest = dict[frozenset[str], list[str]](), dict[frozenset[str], list[str]]()
    for target in targets:
        into = rest if target.id in slow else quick
        into.setdefault(needs_of(target, known), []).append(target.id)
    ordered = sorted(quick.items(), key=lambda each: (-len(each[1]), sorted(each[0])))
    both = [*ordered, *rest.items()]
    return [tuple(names) for _, names in both], [needs for needs, _ in both], max(1, len(ordered))


def threads_for(needs: Collection[str], workers: Mapping[str, Mapping[str, Any]]) -> int:
    """How many orders workers with these resources carry out at a time."""
    fit = [worker for worker in workers.values() if {*needs} <= {*worker["resources"]}]
    return sum(int(worker["nthreads"]) for worker in fit)
