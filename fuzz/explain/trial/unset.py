"""Unset reads: whether a failure depends on what registers, stack or new memory hold before a call."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fuzz.core.base.case import Case
from fuzz.core.base.fill import FILL, FILLS, UNSET, ZERO, fill_of, filled
from fuzz.core.base.verdict import Verdict
from fuzz.explain.explanation import UnsetRead
from fuzz.explain.trial.trial import Trials


def unset_read(trials: Trials, case: Case) -> UnsetRead | None:
    """Return what the kernel reads that nobody has set. None if the case also fails with 0 everywhere, or not again
    with what it failed with; and if it hangs, since each run would take its whole limit."""
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
