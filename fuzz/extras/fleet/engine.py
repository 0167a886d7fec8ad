"""The engine of a search on a cluster of Dask, in place of this machine's processes. Failures that occur only on
workers with another processor are explained there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.campaign.search.runner import slow_targets_of
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.core.adapters.pack import built_in
from fuzz.core.adapters.target import Attestation, Target
from fuzz.core.adapters.toolchain import Host, this_host
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.core.judge.trouble import error_words
from fuzz.explain.finding import Finding
from fuzz.explain.rule.rule import Rule
from fuzz.explain.trial.trial import Family, traits_for
from fuzz.extras.fleet import cluster
from fuzz.extras.fleet.executor import DaskExecutor
from fuzz.extras.fleet.shard import answered
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.casefile import FoundRecord, from_json, to_json
from fuzz.findings.codec import rule_from_text

if TYPE_CHECKING:
    from distributed import Client

_MOST_CASES = 64
"""The most failures that are sent to be explained, the smallest first, since several bugs may be among them."""


@dataclass
class DaskEngine:
    """A scheduler's address, and the pack that its workers load."""

    address: str
    pack: Path | None
    untrusted: bool
    running: DaskExecutor | None = None
    """The executor of the session that uses the engine; None before there is one."""

    @cached_property
    def client(self) -> Client:
        """A client of the scheduler. Raises UsageError."""
        return cluster.connected(self.address)

    @cached_property
    def hosts(self) -> Sequence[Host]:
        """The machines of those workers that have another processor than this machine."""
        asked = json.dumps({"code": cluster.code_digest(), "ask": "machine", "campaign": {}, "group": 0})
        try:
            told = cluster.within(partial(self.client.run, answered, asked, on_error="return"), cluster.AWAY_S)
        except TimeoutError as error:
            raise UsageError(
                f"--engine {self.address}: a worker does not answer for {cluster.AWAY_S:.0f} seconds"
            ) from error
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
        self, targets: Sequence[Target], scope: SearchScope, case_limit: float | None, longest: float | None
    ) -> DaskExecutor:
        """Return an executor that takes the turns of these targets on workers with the needed resources."""
        known = cluster.offered(cluster.workers_of(self.client))
        groups, needs, quick = cluster.groups_by_need(targets, slow_targets_of(targets), known)
        pack, sources = "" if self.pack is None else str(self.pack), self.pack or built_in()
        campaign = cluster.Campaign(
            pack, self.untrusted, cluster.sources_digest(sources, scope.kernels), tuple(groups), scope.accuracy,
            scope.records, case_limit, longest,
        )  # fmt: skip
        self.running = DaskExecutor(
            self.address, campaign, needs, replace(scope, groups=groups, quick=quick), client=self.client
        )
        return self.running

    @property
    def told(self) -> Mapping[str, Attestation]:
        """The attestations of workers, by target."""
        return {} if self.running is None else self.running.told

    def explain(self, book: FindingBook, pile: Sequence[Bucket], seconds: float, over: Callable[[], bool]) -> None:
        """Have a worker explain failures that occur only there, since this machine cannot run the target."""
        if self.running is not None:
            _explain_there(book, pile, self.running, seconds, over)

    def close(self) -> None:
        """Leave the cluster."""
        with suppress(Exception):
            self.client.close(timeout=2)


def engine_at(name: str, pack: Path | None, untrusted: bool) -> DaskEngine:
    """Return the cluster with this address. Raises UsageError."""
    if not name.startswith(cluster.SCHEME):
        raise UsageError(f"--engine {name}: write local, or dask://HOST:PORT of a scheduler")
    engine = DaskEngine(name, pack, untrusted)
    _ = engine.hosts
    return engine


@dataclass(frozen=True)
class _Cause:
    """A cause that a worker found."""

    finding: Finding
    core: Rule | None
    whole: bool

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> _Cause:
        """Return a cause from a JSON object. Raises CaseError or ValueError if it is broken."""
        case, found = from_json(told["case"])
        if found is None:
            raise ValueError("it says nothing of what was found")
        judgement = Judgement(found.target, case, Verdict(found.verdict), law=found.law)
        finding = Finding(case, judgement, told["verdicts"], told=found.explanation)
        return cls(finding, rule_from_text(told["core"]), told["whole"])


def _explain_there(
    book: FindingBook, pile: Sequence[Bucket], executor: DaskExecutor, seconds: float, over: Callable[[], bool]
) -> None:
    """Have a worker explain buckets of one kernel and family, in at most `seconds` for each cause, and replace them by
    one bucket for each cause, or note why there is none. The wait ends once `over` returns true."""
    home, *others = pile
    seen = sorted((each for bucket in pile for each in bucket.pile.findings), key=lambda each: each.size)
    sent = {each.case.digest: each for each in (*(bucket.found for bucket in pile), *seen)}
    cases = [
        to_json(each.case, FoundRecord(each.target, each.judgement.verdict.value, 0, "", each.judgement.broken_law))
        for each in list(sent.values())[:_MOST_CASES]
    ]
    try:
        causes = [_Cause.of(told) for told in executor.causes(home.target, cases, seconds, over)]
        why = "where it did not fail again, or was not explained in time"
    except Exception as error:
        causes, why = [], f"and not explained there: {error_words(error)}"
    if not causes:
        for bucket in pile:
            bucket.note = f"seen on another machine, {why}"
        return
    for other in others:
        book.merge(other, home)
    home.pile.findings.clear()
    first, *further = causes
    book.tell(home, first.finding, first.core, whole=first.whole)
    for cause in further:
        members = [each for each in seen if _holds(book, cause.core, each)]
        if members:
            fresh = book.open(home, members)
            fresh.pile.findings.clear()
            book.tell(fresh, cause.finding, cause.core, whole=cause.whole)


def _holds(book: FindingBook, core: Rule | None, finding: Finding) -> bool:
    law = Family.of(finding.judgement).law
    return core is not None and core.holds(traits_for(finding.case, book.targets[finding.target], law))
