"""How things moved from night to night: what is new, fixed, open and flaky, and the accuracy, coverage and pace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fuzz.findings.tables import AccuracyRow, BucketRow, CounterRow, PassRow, TargetRow
from fuzz.triage.attribute.history import Need

if TYPE_CHECKING:
    from fuzz.findings.database_views import NightTotals

FAILS, PASSES, UNSEEN = "fails", "passes", "not seen"


@dataclass(frozen=True)
class Bracket:
    """The nights between which a bug came: at the commit of the one its case passed, at that of the other it failed."""

    good: str
    bad: str

    @property
    def named(self) -> bool:
        """Whether each commit names sources, with no change beside it."""
        return self.good.isalnum() and self.bad.isalnum()


@dataclass(frozen=True)
class BugHistory:
    """One bug over the nights."""

    signature: str
    kernel: str
    status: str
    """'new', 'open', 'fixed' or 'flaky'."""
    nights: Mapping[int, str]
    """What each night saw of it: that it fails, passes, or nothing."""
    first: int
    """The night in which it failed first."""
    bracket: Bracket | None = None


@dataclass(frozen=True)
class Past:
    """One night in a line."""

    night: NightTotals
    judged: int
    buckets: int
    """The number of buckets that failed in the night."""
    new: int
    fixed: int
    """The number of buckets that passed in the night, and had failed before."""
    visited: int
    space: int
    """The number of labels that a search should visit, of which `visited` were."""
    worst: Mapping[str, float]
    """The largest err/budget of passing runs, by kernel."""

    @property
    def commit(self) -> str:
        """What was checked out around the pack; '' where that was no repository."""
        return str(self.night.environment.get("commit") or "")

    @property
    def machine(self) -> str:
        """The processor of the machine that counted."""
        facts = self.night.environment
        return " ".join(str(facts[name]) for name in ("machine", "cpu") if facts.get(name))

    @property
    def rate(self) -> float:
        """Judged runs a second."""
        return self.judged / self.night.used_s if self.night.used_s else 0.0

    @property
    def coverage(self) -> float | None:
        return self.visited / self.space if self.space else None


@dataclass(frozen=True)
class Trends:
    """All nights from one on, and every bug that they saw."""

    nights: Sequence[Past]
    bugs: Sequence[BugHistory]

    @property
    def counts(self) -> Counter[str]:
        """How many bugs there are, by status."""
        return Counter(bug.status for bug in self.bugs)


def trends(
    transaction: Session, nights: Sequence[NightTotals], buckets: Iterable[tuple[BucketRow, Mapping[int, object]]]
) -> Trends:
    """Those of these nights, in order. `buckets` say in which nights each failed."""
    passed: dict[int, set[int]] = {}
    for row in transaction.scalars(select(PassRow)):
        passed.setdefault(row.bucket_id, set()).add(row.night_id)
    seen = [(row, set(failed), passed.get(row.id, set())) for row, failed in buckets if failed]
    bugs = [_history(row, failed, passes, nights) for row, failed, passes in seen]
    totals = select(CounterRow.night_id, func.sum(CounterRow.count)).filter(CounterRow.what == "judged")
    judged = {night: int(count) for night, count in transaction.execute(totals.group_by(CounterRow.night_id))}
    visits = _labels(transaction)
    worst = _worst(transaction)
    lines = [
        Past(
            night, judged.get(night.id, 0), sum(night.id in failed for _, failed, _ in seen),
            sum(night.id == min(failed) for _, failed, _ in seen),
            sum(night.id in passes and min(failed) < night.id for _, failed, passes in seen),
            *visits.get(night.id, (0, 0)), worst.get(night.id, {}),
        )
        for night in nights
    ]  # fmt: skip
    within = {night.id for night in nights}
    return Trends(lines, [bug for bug in bugs if within & bug.nights.keys()])


def _history(row: BucketRow, failed: set[int], passed: set[int], nights: Sequence[NightTotals]) -> BugHistory:
    commits = {night.id: str(night.environment.get("commit") or "") for night in nights}
    events = {night: FAILS if night in failed else PASSES for night in sorted(failed | passed) if night in commits}
    first, last = min(failed), max(commits, default=0)
    came = _came(failed, passed)
    bracket = Bracket(commits.get(came[0], ""), commits.get(came[1], "")) if came is not None else None
    both = {commits[n] for n in failed & commits.keys()} & {commits[n] for n in passed & commits.keys()}
    if row.need == Need.UNKNOWN.value or failed & passed or any(each.isalnum() for each in both):
        status, bracket = "flaky", None
    elif passed and max(passed) > max(failed):
        status = "fixed"
    else:
        status = "new" if first == last else "open"
    return BugHistory(row.signature, row.kernel, status, events, first, bracket)


def _came(failed: set[int], passed: set[int]) -> tuple[int, int] | None:
    """The last night in which it passed before it failed, and the first one after that in which it failed."""
    good = max((night for night in passed if night < max(failed)), default=None)
    return None if good is None else (good, min(night for night in failed if night > good))


def _labels(transaction: Session) -> dict[int, tuple[int, int]]:
    """How many labels of the space were visited, and how many there are, by night."""
    space, visit = CounterRow.__table__.alias("space"), CounterRow.__table__.alias("visit")
    same = [space.c[name] == visit.c[name] for name in ("night_id", "subject", "kind", "value")]
    joined = space.outerjoin(
        visit, (visit.c.what == "visit") & (visit.c.count > 0) & same[0] & same[1] & same[2] & same[3]
    )
    query = select(space.c.night_id, func.count(visit.c.night_id), func.count()).select_from(joined)
    rows = transaction.execute(query.where(space.c.what == "space").group_by(space.c.night_id))
    return {night: (visited, of) for night, visited, of in rows}


def _worst(transaction: Session) -> dict[int, dict[str, float]]:
    query = select(AccuracyRow.night_id, TargetRow.kernel, func.max(AccuracyRow.ratio)).join(
        TargetRow, (TargetRow.night_id == AccuracyRow.night_id) & (TargetRow.name == AccuracyRow.target)
    )
    found: dict[int, dict[str, float]] = {}
    for night, kernel, ratio in transaction.execute(query.group_by(AccuracyRow.night_id, TargetRow.kernel)):
        found.setdefault(night, {})[kernel] = ratio
    return found
