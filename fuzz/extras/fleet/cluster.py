"""A cluster of Dask: connecting to it, the resources of its workers, the targets that each may run, and the description
of a campaign that workers receive."""

from __future__ import annotations

import hashlib
import logging
import platform
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future as Answer
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import oracles
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.core.adapters.cuda import sanitized
from fuzz.core.adapters.pack import Pack, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.base import __version__
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.laws.registry import declared
from fuzz.findings.database import EXTRA

if TYPE_CHECKING:
    from distributed import Client

SCHEME = "dask://"
_PATIENCE_S = 30
"""The seconds to wait for a scheduler, for its first worker, and for each of their answers: as many as Dask allows for
a connection."""
AWAY_S = 120.0
"""The seconds of silence after which a scheduler or worker is given up: Dask would wait for minutes, and delay the
others. It is four times what Dask allows for a connection. Measured: with 8 to 40 processes for 2 processors, 30
seconds were too short for 3 of 5 workers to introduce themselves."""
_SHARE = 1 / 1024
"""The amount of a resource that one order uses. It is tiny, since a worker either has a resource or has not."""

_T = TypeVar("_T")


def within(asked: Callable[[], _T], seconds: float = _PATIENCE_S) -> _T:
    """Return a cluster's answer. Raises TimeoutError if it takes longer than `seconds`: most functions of Dask wait for
    ever for a machine that is stopped or has lost its network."""
    answer = Answer[_T]()

    def ask() -> None:
        try:
            answer.set_result(asked())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer.result(seconds)


def connected(engine: str) -> Client:
    """Return a client of the scheduler. Raises UsageError if there is no scheduler, or if it has no workers."""
    if find_spec("distributed") is None:
        raise UsageError(f"--engine {engine}: dask is not installed: {EXTRA}")
    import dask
    from distributed import Client

    scheme = "tls" if dask.config.get("distributed.comm.tls.ca-file", None) else "tcp"
    # Errors are reported once, below. Dask sets the log level of its client itself.
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
    """Return the scheduler's information about each worker, by address. Raises TimeoutError."""
    # `scheduler_info` may return what the client last fetched, every two seconds, where workers may be missing.
    said: Any = within(lambda: client.sync(client.scheduler.identity, n_workers=-1))
    found: Mapping[str, Mapping[str, Any]] = said["workers"]
    return found


def offered(workers: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Return the resources that at least one worker names."""
    return frozenset(name for worker in workers.values() for name in worker["resources"])


def needs_of(target: Target, known: Collection[str]) -> frozenset[str]:
    """Return the resources that a worker needs to run the target, among those that the cluster names."""
    arch = target.host.arch if target.host is not None else platform.machine()
    needs = {arch}
    if target.shares or target.sanitizable or target.sanitizer:
        needs.add("gpu")
    if target.emulator is None and any("avx512" in flag for flag in target.flags):
        needs.add("avx512")
    return frozenset(needs & {*known})


def requested(needs: Collection[str]) -> dict[str, float]:
    """Return the needed resources in the form that Dask expects."""
    return dict.fromkeys(sorted(needs), _SHARE)


def groups_by_need(
    targets: Sequence[Target], slow: Collection[str], known: Collection[str]
) -> tuple[list[tuple[str, ...]], list[frozenset[str]], int]:
    """Return the targets grouped by the resources that a worker needs for them, the needs of each group, and the number
    of groups of quick targets. These groups come first, beginning with the largest."""
    quick, rest = dict[frozenset[str], list[str]](), dict[frozenset[str], list[str]]()
    for target in targets:
        into = rest if target.id in slow else quick
        into.setdefault(needs_of(target, known), []).append(target.id)
    ordered = sorted(quick.items(), key=lambda each: (-len(each[1]), sorted(each[0])))
    both = [*ordered, *rest.items()]
    return [tuple(names) for _, names in both], [needs for needs, _ in both], max(1, len(ordered))


def threads_for(needs: Collection[str], workers: Mapping[str, Mapping[str, Any]]) -> int:
    """Return how many orders the workers with these resources carry out at the same time."""
    fit = [worker for worker in workers.values() if {*needs} <= {*worker["resources"]}]
    return sum(int(worker["nthreads"]) for worker in fit)


@dataclass(frozen=True)
class Campaign:
    """The description of a search that all workers receive, as JSON text."""

    pack: str
    """The folder of the pack; '' for the built-in one. It is the same on all machines, or relative to the folder in
    which a worker was started."""
    untrusted: bool
    kernels: str
    """The digest of the pack's sources."""
    groups: tuple[tuple[str, ...], ...]
    """The targets in groups; each group runs in its own processes."""
    accuracy: bool
    records: bool
    case_limit: float | None
    longest: float | None

    def scope(self, kernels: tuple[Kernel, ...]) -> SearchScope:
        """Return the scope of the campaign's turns."""
        return SearchScope(kernels, declared(kernels), self.groups, accuracy=self.accuracy, records=self.records)

    def loaded(self, group: int) -> tuple[Pack, list[Target]]:
        """Return the pack and the targets of a group, loaded on this machine. Raises UsageError."""
        found = load(Path(self.pack) if self.pack else None)
        pack = found.distrusted() if self.untrusted else found
        if sources_digest(pack.path, pack.kernels) != self.kernels:
            raise UsageError(f"the pack {self.pack or 'that comes along'} has other sources here")
        every = expand(pack.kernels)
        by_id = {each.id: each for target in every for each in (target, *sanitized(target))}
        missing = [name for name in self.groups[group] if name not in by_id]
        if missing:
            raise UsageError(f"{missing[0]} is no target of this machine: name its processor in --resources")
        return pack, [by_id[name] for name in self.groups[group]]


def sources_digest(folder: Path, kernels: Iterable[Kernel]) -> str:
    """Return a digest of the files of a pack and its kernels, which does not depend on their folders."""
    made_of = {path for kernel in kernels for _, path in kernel.paths if path.is_file()}
    texts = sorted((path.name, path.read_bytes()) for path in {*folder.rglob("*.py"), *made_of})
    return _digest(texts)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return the version of kernelfuzz with a digest of its sources; two versions may draw different cases."""
    folders = [Path(__file__).parents[2], Path(str(oracles.__file__)).parent]
    tests = [folder / "tests" for folder in folders]
    paths = sorted(path for folder in folders for path in folder.rglob("*.py") if not set(tests) & {*path.parents})
    return f"{__version__} ({_digest((path.name, path.read_bytes()) for path in paths)})"


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    found = hashlib.blake2b(digest_size=6)
    for name, content in files:
        found.update(name.encode() + b"\0" + hashlib.blake2b(content).digest())
    return found.hexdigest()
