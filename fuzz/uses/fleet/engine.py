"""The engine of a search: a cluster of Dask in place of this machine's processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.adapters.pack import built_in
from fuzz.adapters.target import Target
from fuzz.adapters.toolchain import Host, this_host
from fuzz.base.errors import UsageError
from fuzz.uses.fleet.campaign import Campaign, code_digest, sources_digest
from fuzz.uses.fleet.cluster import AWAY_S, SCHEME, connected, groups_by_need, offered, within, workers_of
from fuzz.uses.fleet.executor import DaskExecutor
from fuzz.uses.fleet.shard import answered
from fuzz.uses.search.groups import slow_targets_of
from fuzz.uses.search.turn_runner import Terms

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"


@dataclass(frozen=True)
class DaskEngine:
    """A scheduler, and the pack that its workers load."""

    address: str
    pack: Path | None
    untrusted: bool

    @cached_property
    def client(self) -> Client:
        """Raises UsageError."""
        return connected(self.address)

    @cached_property
    def hosts(self) -> Sequence[Host]:
        """The machines of workers that have another processor than this one."""
        asked = json.dumps({"code": code_digest(), "ask": "machine", "campaign": {}, "group": 0})
        try:
            told = within(partial(self.client.run, answered, asked, on_error="return"), AWAY_S)
        except TimeoutError as error:
            raise UsageError(f"--engine {self.address}: a worker does not answer for {AWAY_S:.0f} seconds") from error
        found: dict[str, Host] = {}
        for name, text in told.items():
            if not isinstance(text, str):
                raise UsageError(f"--engine {self.address}: the worker {name} cannot take part: {text}")
            said: dict[str, Any] = json.loads(text)
            if "refused" in said:
                raise UsageError(f"--engine {self.address}: the worker {name} {said['refused']}")
            found[said["arch"]] = Host(said["arch"], frozenset(said["features"]), said["settings"])
        return [host for arch, host in found.items() if arch != this_host().arch]

    def executor(
        self, targets: Sequence[Target], terms: Terms, case_limit: float | None, longest: float | None
    ) -> DaskExecutor:
        """Takes the turns of these targets on the workers that have what they need."""
        known = offered(workers_of(self.client))
        groups, needs, quick = groups_by_need(targets, slow_targets_of(targets), known)
        pack, sources = "" if self.pack is None else str(self.pack), self.pack or built_in()
        campaign = Campaign(
            pack, self.untrusted, sources_digest(sources, terms.kernels), tuple(groups), terms.accuracy, terms.records,
            case_limit, longest,
        )  # fmt: skip
        return DaskExecutor(
            self.address, campaign, needs, replace(terms, groups=groups, quick=quick), client=self.client
        )

    def close(self) -> None:
        """Leave the cluster."""
        with suppress(Exception):
            self.client.close(timeout=2)


def engine_of(name: str, pack: Path | None, untrusted: bool) -> DaskEngine | None:
    """The cluster of that address; None for this machine's processes. Raises UsageError."""
    if name == LOCAL:
        return None
    if not name.startswith(SCHEME):
        raise UsageError(f"--engine {name}: write local, or dask://HOST:PORT of a scheduler")
    engine = DaskEngine(name, pack, untrusted)
    _ = engine.hosts
    return engine


def is_elsewhere(target: Target) -> bool:
    """Whether it is of a machine with another processor."""
    return target.host is not None and target.host.arch != this_host().arch
