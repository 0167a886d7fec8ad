"""Corners: the labels of an op that a session can visit, by what its kernels accept and what its workers attest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from fuzz.core.base.dispatch import Dispatch, SizeLimit
from fuzz.core.base.feature import Answer, Feature
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.sketch import ROWS, N
from fuzz.core.generate.space import Space, space_of

Statuses = Mapping[str, Attestation | NotRun]


@dataclass(frozen=True)
class CornerCounts:
    """The corners of one op."""

    space: Space = field(default_factory=dict)
    """The labels that some target of the session can visit. Those that no case visits are coverage gaps."""
    beyond: Space = field(default_factory=dict)
    """The labels that the chosen kernels accept but that no target running here can visit."""
    capabilities: tuple[Capability, ...] = ()
    """The capabilities of running targets that accept cases of any size."""


def corners_of(op: str, targets: Iterable[Target], statuses: Statuses) -> CornerCounts:
    """Return the corners of `op` that these targets can visit."""
    chosen = [target for target in targets if target.kernel.op == op]
    running = [target for target in chosen if not isinstance(statuses.get(target.id), NotRun)]
    space = _joined(_visitable(running, statuses))
    whole = space_of(dict.fromkeys(target.kernel.capability for target in chosen))
    left = [_without(t.kernel.capability, _wrong(t, statuses)) for t in running if t.size_limit is None]
    unlimited = dict.fromkeys(each for each in left if each is not None)
    names = tuple(target.id for target in running)
    return CornerCounts({**space, Feature("target"): names}, _less(whole, space), tuple(unlimited))


def has_corners(targets: Sequence[Target], others: Sequence[Target], statuses: Statuses) -> bool:
    """Whether these targets can visit some label that the others cannot."""
    return any(_less(_joined(_visitable(targets, statuses)), _joined(_visitable(others, statuses))).values())


class Reserved:
    """Chooses cases for slow targets that are dispatched to them even while they rest: the first case that each target
    accepts, since some targets accept few; and the first case of each corner that no other target can visit."""

    def __init__(self, slow: Sequence[Target], quick: Sequence[Target], statuses: Statuses) -> None:
        ops = {target.kernel.op for target in slow}
        self._ledgers: dict[str, Ledger] = {}
        self._dispatches: dict[str, list[tuple[Dispatch, frozenset[str]]]] = {}
        for op in ops:
            of_op, others = ([t for t in part if t.kernel.op == op] for part in (slow, quick))
            only = _less(_joined(_visitable(of_op, statuses)), _joined(_visitable(others, statuses)))
            self._ledgers[op] = Ledger(only)
            dispatches = {t.dispatch(): frozenset(_wrong(t, statuses)) for t in of_op}
            self._dispatches[op] = list(dispatches.items())
        self._idle = {op: list(each) for op, each in self._dispatches.items()}
        """The dispatches to which no case was sent so far, by op."""

    def __call__(self, cases: Sequence[Case]) -> Collection[int]:
        """Return the indices of the chosen cases, and count each as visited, since dispatched cases are judged."""
        return [index for index, case in enumerate(cases) if self._is_wanted(case)]

    def _is_wanted(self, case: Case) -> bool:
        ledger, idle = self._ledgers.get(case.op), self._idle.get(case.op, [])
        is_first = ledger is not None and any(map(ledger.lacks, case.origin.labels))
        if ledger is None or not (idle or is_first):
            return False  # asking each target whether it accepts the case would cost more, and none needs it
        dispatches = self._dispatches[case.op]
        taking = [each for each in dispatches if each[1].isdisjoint(case.dtypes) and each[0].accepts(case)]
        if not taking or not (is_first or any(each in idle for each in taking)):
            return False
        self._idle[case.op] = [each for each in idle if each not in taking]
        ledger.see(case.origin.labels)
        return True


def _wrong(target: Target, statuses: Statuses) -> Collection[str]:
    """Return the dtypes that the target's worker gets wrong whatever the kernel does."""
    status = statuses.get(target.id)
    return () if status is None or isinstance(status, NotRun) else tuple(status.wrong_dtypes)


def _visitable(targets: Iterable[Target], statuses: Statuses) -> Iterable[Space]:
    """Yield the space that each target can visit. Equal spaces are yielded once."""
    kinds = {(t.kernel.capability, frozenset(_wrong(t, statuses)), t.size_limit): None for t in targets}
    for capability, wrong, limit in kinds:
        left = _without(capability, wrong) if wrong else capability
        space = space_of([left]) if left is not None else {}
        yield space if limit is None else {kind: _within(limit, kind, values) for kind, values in space.items()}


def _without(capability: Capability, wrong: Collection[str]) -> Capability | None:
    """Return the capability without tensors of the wrong dtypes; None if no dtype is left."""
    able = capability.able
    mixed = tuple((name, tuple(d for d in dtypes if d not in wrong)) for name, dtypes in able.mixed)
    impossible = {name for name, dtypes in mixed if not dtypes}
    left = tuple(d for d in able.dtypes if d not in wrong) if impossible.isdisjoint(able.needs) else ()
    takes = tuple(name for name in able.takes or () if name not in impossible)
    return replace(capability, able=replace(able, dtypes=left, mixed=mixed, takes=takes)) if left else None


def _within(limit: SizeLimit, kind: Feature, values: tuple[Any, ...]) -> tuple[Answer, ...]:
    most = {N: limit.elements, ROWS: limit.rows}.get(kind)
    return values if most is None else tuple(value for value in values if value <= most)


def _joined(spaces: Iterable[Space]) -> Space:
    kinds: dict[Feature, dict[Answer, None]] = {}
    for space in spaces:
        for kind, values in space.items():
            kinds.setdefault(kind, {}).update(dict.fromkeys(values))
    return {kind: tuple(values) for kind, values in kinds.items()}


def _less(space: Space, other: Space) -> Space:
    left = [
        (kind, tuple(value for value in values if value not in other.get(kind, ()))) for kind, values in space.items()
    ]
    return {kind: values for kind, values in left if values}
