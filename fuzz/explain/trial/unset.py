"""Unset reads: whether a failure depends on the content of registers, stack or new memory before a call."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fuzz.core.base.case import Case
from fuzz.core.base.fill import FILL, FILLS, UNSET, ZERO, fill_of, filled
from fuzz.core.base.verdict import Verdict
from fuzz.explain.explanation import UnsetRead
from fuzz.explain.trial.trial import Trials


def unset_read(trials: Trials, case: Case) -> UnsetRead | None:
    """Return the unset memory that the kernel reads. Return None if the case also fails with zeros everywhere, or does
    not fail again with its own fill, or hangs, since each run would take the whole limit."""
    known = trials.known.get(case.digest)
    hangs = known is not None and known.verdict is Verdict.TIMEOUT
    if FILL in case.params or hangs:
        return None
    ours = replace(trials, out_of_time=lambda: False)
    if not _passes(ours, case, ZERO):
        return None
    kinds = [kind for kind in range(len(FILLS)) if kind != ZERO and not _passes(ours, case, kind)]
    if fill_of(case) not in kinds:
        return None
    where = tuple(each for each in UNSET if _passes(ours, case, kinds[0], [each]))
    names = list(FILLS)
    return UnsetRead(where, tuple(names[kind] for kind in kinds))


def _passes(trials: Trials, case: Case, kind: int, without: Collection[str] = ()) -> bool:
    (judgement,) = trials.judge([filled(case, kind, without)])
    return judgement is not None and judgement.verdict is Verdict.PASS
