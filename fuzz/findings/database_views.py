"""Totals of a night, and everything else that its page and summary show: sums over rows of the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from fuzz.core.generate.conditions import Together
from fuzz.explain.attribute.history import Need
from fuzz.explain.explanation import Explanation
from fuzz.findings.codec import decoded
from fuzz.findings.database import name_of
from fuzz.findings.state import FINDINGS, StateError
from fuzz.findings.tables import (
    AccuracyRow,
    BatchRow,
    BucketRow,
    CounterRow,
    JoinedBucket,
    NightRow,
    PairsRow,
    SessionRow,
    SliceRow,
    TargetRow,
    joined_buckets,
)
from fuzz.findings.tally import Decided
from oracles.ops import OPS

_Counts = dict[str, dict[tuple[str, str, str], int]]
"""The counters of a night: by the name of the counter, the counts by (subject, kind, value)."""


class NightTotals(NamedTuple):
    """The row of one night, with the seconds that it used."""

    id: int
    seed: int
    started: datetime
    limit_s: float
    ended: str
    version: str
    command: str
    environment: dict[str, Any]
    used_s: float
    """The seconds that all sessions used, up to the last commit."""
    triage_s: float
    """The part of these seconds that was spent on shrinking and explaining."""


class SliceTotals(NamedTuple):
    """One slice of a night, with the numbers of its cases and judged runs."""

    number: int
    op: str
    seed: int
    seconds: float
    done: bool
    cases: int
    judged: int
    searched_s: float = 0.0
    """The seconds of search, without those of explaining, once the slice has ended."""
    new: Mapping[str, int] = MappingProxyType({})
    """How many new things each target showed; '' for what belongs to no target."""


class MinuteTotals(NamedTuple):
    """The judged runs and cases in one minute of a night's working time."""

    minute: int
    judged: int
    cases: int


@dataclass(frozen=True)
class TargetTotals:
    """The counts of one target in one night."""

    name: str
    kernel: str
    op: str
    runs: bool
    reason: str
    attested: dict[str, Any]
    judged: int
    findings: int
    gave_up: int
    not_run: int
    decided: Decided = field(default_factory=dict)


class LawTotals(NamedTuple):
    """The number of comparisons by one law in one night."""

    name: str
    compared: int


class LabelTotals(NamedTuple):
    """The number of visits to one label of an op's space in one night."""

    op: str
    kind: str
    value: str
    wanted: bool
    """Whether the label is part of the space, so that it is a coverage gap if nothing visits it."""
    visits: int


class Mark(NamedTuple):
    """One row of `AccuracyRow` as a tuple: a long night has tens of thousands of them."""

    target: str
    dtype: str
    bin: int
    worst_case: bool
    n: int
    ratio: float
    climb: float
    where: str
    runs: int


@dataclass(frozen=True)
class BucketTotals:
    """One bug, with its sightings in this night and in all."""

    row: BucketRow
    sightings: dict[str, int]
    """The number of failing runs in this night, by target."""
    status: str
    """'new' or 'still fails' if it failed in this night, 'passes now' if its kept case ran again and passed, else
    'not seen'."""
    count: int
    """The number of failing runs in all nights."""
    first_night: int
    last_night: int
    """The latest night in which it failed."""

    @property
    def told(self) -> Explanation:
        """The explanation of the bug. Raises CaseError if the row is damaged."""
        return decoded(self.row.explanation)


@dataclass(frozen=True)
class NightView:
    """A night with all that its page shows, and the trends of the nights before it."""

    findings: Path
    """The folder of its case files."""
    night: NightTotals
    sessions: Sequence[SessionRow]
    slices: Sequence[SliceTotals]
    targets: Sequence[TargetTotals]
    laws: Sequence[LawTotals]
    twins: Mapping[str, Mapping[str, int]]
    """The number of twins that were judged, by target and law."""
    coverage: Sequence[LabelTotals]
    together: Mapping[str, Together]
    """The pairs of conditions that held together, by op."""
    accuracy: Sequence[Mark]
    pace: Sequence[MinuteTotals]
    buckets: Sequence[BucketTotals]
    trends: Trends
    """The trends of this night and the nights before it."""

    @property
    def judged(self) -> int:
        """The number of judged runs. A judged run is one case on one target."""
        return sum(target.judged for target in self.targets)

    @property
    def cases(self) -> int:
        return sum(part.cases for part in self.slices)

    @property
    def failing(self) -> list[BucketTotals]:
        """The buckets that failed in this night."""
        return [bucket for bucket in self.buckets if bucket.status in ("new", "still fails")]


def view(engine: Engine, night: int | None = None, findings: Path | None = None, since: int = 0) -> NightView:
    """Return a night, by default the latest. `findings` is the folder of its case files, by default the one beside the
    database; its trends begin with the night `since`. Raises StateError if there is no such night."""
    with Session(engine, expire_on_commit=False) as transaction:
        nights = nights_of(transaction)
        number = max(nights, default=0) if night is None else night
        if number not in nights:
            raise StateError(f"{name_of(engine)}: there is no night in it yet")
        if since > number:
            raise StateError(f"{name_of(engine)}: there is no night {since} in it yet: the latest is {number}")
        counts = _counts(transaction, number)
        twins: dict[str, dict[str, int]] = {}
        for (target, law, _), compared in sorted(counts.get("twin", {}).items()):
            twins.setdefault(target, {})[law] = compared
        of_night = select(SessionRow).filter_by(night_id=number).order_by(SessionRow.id)
        buckets = joined_buckets(transaction)
        return NightView(
            findings=findings or Path(engine.url.database or "").parent / FINDINGS,
            night=nights[number],
            sessions=transaction.scalars(of_night).all(),
            slices=slices_of(transaction, number),
            targets=_targets(transaction, number, counts),
            laws=[LawTotals(law, count) for (law, _, _), count in sorted(counts.get("compared", {}).items())],
            twins=twins,
            coverage=_coverage(counts),
            together=_together(transaction, number),
            accuracy=_marks(transaction, number),
            pace=_pace(transaction, number),
            buckets=_of_night(buckets, number),
            trends=trends(transaction, [nights[each] for each in sorted(nights) if since <= each <= number], buckets),
        )


def slices_of(transaction: Session, night: int) -> list[SliceTotals]:
    """Return all slices of a night so far, in order."""
    columns = (SliceRow.number, SliceRow.op, SliceRow.seed, SliceRow.seconds, SliceRow.done)
    totals = (func.coalesce(func.sum(BatchRow.cases), 0), func.coalesce(func.sum(BatchRow.judged), 0))
    columns_last = (SliceRow.searched_s, SliceRow.new)
    query = select(*columns, *totals, *columns_last).outerjoin(BatchRow, BatchRow.slice_id == SliceRow.id)
    rows = transaction.execute(query.filter(SliceRow.night_id == night).group_by(SliceRow.id).order_by(SliceRow.number))
    return [SliceTotals(*row) for row in rows]


def nights_of(transaction: Session) -> dict[int, NightTotals]:
    """Return all nights, by number."""
    times = select(SessionRow.night_id, func.sum(SessionRow.used_s), func.sum(SessionRow.triage_s))
    used = {night: seconds for night, *seconds in transaction.execute(times.group_by(SessionRow.night_id))}
    return {
        row.id: NightTotals(
            row.id, row.seed, row.started, row.limit_s, row.ended, row.version, row.command, row.environment,
            *used.get(row.id, (0.0, 0.0)),
        )
        for row in transaction.scalars(select(NightRow))
    }  # fmt: skip


def _counts(transaction: Session, night: int) -> _Counts:
    """Return all counters of a night, of which there are thousands."""
    columns = (CounterRow.what, CounterRow.subject, CounterRow.kind, CounterRow.value, CounterRow.count)
    found: _Counts = {}
    for what, *key, count in transaction.execute(select(*columns).filter(CounterRow.night_id == night)):
        found.setdefault(what, {})[key[0], key[1], key[2]] = count
    return found


def _targets(transaction: Session, night: int, counts: _Counts) -> list[TargetTotals]:
    decided: dict[str, Decided] = {}
    for what in ("open", "decided"):  # an output that was decided once counts as decided
        for (target, output, dtype), count in counts.get(what, {}).items():
            decided.setdefault(target, {})[output, dtype] = count if what == "open" else 0
    order = (TargetRow.op, TargetRow.kernel, TargetRow.name)

    def counted(row: TargetRow, what: str) -> int:
        return counts.get(what, {}).get((row.name, "", ""), 0)

    return [
        TargetTotals(
            row.name, row.kernel, row.op, row.runs, row.reason, row.attested, counted(row, "judged"),
            counted(row, "findings"), counted(row, "gave_up"), counted(row, "not_run"), decided.get(row.name, {}),
        )
        for row in transaction.scalars(select(TargetRow).filter_by(night_id=night).order_by(*order))
    ]  # fmt: skip


def _coverage(counts: _Counts) -> list[LabelTotals]:
    visits, space = counts.get("visit", {}), counts.get("space", {})
    return [LabelTotals(*label, label in space, visits.get(label, 0)) for label in sorted({*visits, *space})]


def _together(transaction: Session, night: int) -> dict[str, Together]:
    rows = transaction.scalars(select(PairsRow).filter_by(night_id=night).order_by(PairsRow.op))
    return {row.op: Together.of_record(row.op, row.together) for row in rows if row.op in OPS}


def _marks(transaction: Session, night: int) -> list[Mark]:
    columns = [AccuracyRow.__table__.columns[name] for name in Mark._fields]
    chosen = select(*columns).filter(AccuracyRow.night_id == night).order_by(*AccuracyRow.__table__.primary_key)
    return [Mark(*row) for row in transaction.execute(chosen)]


def _pace(transaction: Session, night: int) -> list[MinuteTotals]:
    totals = select(BatchRow.minute, func.sum(BatchRow.judged), func.sum(BatchRow.cases)).join(
        SliceRow, SliceRow.id == BatchRow.slice_id
    )
    rows = transaction.execute(
        totals.filter(SliceRow.night_id == night).group_by(BatchRow.minute).order_by(BatchRow.minute)
    )
    return [MinuteTotals(*row) for row in rows]


def _of_night(buckets: Iterable[JoinedBucket], night: int) -> list[BucketTotals]:
    """Return the buckets that were seen up to this night, sorted by status."""
    found = []
    for each in buckets:
        first, last = min(each.seen, default=night), max(each.seen, default=0)
        if first <= night:
            total = sum(counts.total() for counts in each.seen.values())
            sightings = dict(each.seen.get(night, Counter[str]()).most_common())
            status = _status(each.passed_night, first, last, night)
            found.append(BucketTotals(each.row, sightings, status, total, first, last))
    order = ("new", "still fails", "not seen", "passes now")
    return sorted(found, key=lambda bucket: (order.index(bucket.status), bucket.row.kernel, bucket.row.signature))


def _status(passed: int | None, first: int, last: int, night: int) -> str:
    if last == night:
        return "new" if first == night else "still fails"
    return "passes now" if passed is not None and passed > last else "not seen"


FAILS, PASSES, UNSEEN = "fails", "passes", "not seen"


@dataclass(frozen=True)
class Bracket:
    """The commits between which a bug appeared: its case passed at the first and failed at the second."""

    good: str
    bad: str

    @property
    def named(self) -> bool:
        """Whether both commits are known, and were checked out without uncommitted changes."""
        return self.good.isalnum() and self.bad.isalnum()


@dataclass(frozen=True)
class BugHistory:
    """One bug in all nights."""

    signature: str
    kernel: str
    status: str
    """'new', 'open', 'fixed' or 'flaky'."""
    nights: Mapping[int, str]
    """The result of each night: the bug's case failed or passed; nights that did not see it are missing."""
    first: int
    """The night in which it failed first."""
    bracket: Bracket | None = None


@dataclass(frozen=True)
class Past:
    """One night as a line of the trends."""

    night: NightTotals
    judged: int
    buckets: int
    """The number of buckets that failed in the night."""
    new: int
    fixed: int
    """The number of buckets that passed in the night, and had failed before."""
    visited: int
    space: int
    """The number of labels that a search should visit, of which it visited `visited`."""
    worst: Mapping[str, float]
    """The largest err/budget of passing runs, by kernel."""

    @property
    def commit(self) -> str:
        """The commit that was checked out around the pack; '' if there was no repository."""
        return str(self.night.environment.get("commit") or "")

    @property
    def machine(self) -> str:
        """The name of the machine's architecture and processor."""
        facts = self.night.environment
        return " ".join(str(facts[name]) for name in ("machine", "cpu") if facts.get(name))

    @property
    def rate(self) -> float:
        """The number of judged runs per second."""
        return self.judged / self.night.used_s if self.night.used_s else 0.0

    @property
    def coverage(self) -> float | None:
        return self.visited / self.space if self.space else None


@dataclass(frozen=True)
class Trends:
    """The lines of all nights from a first one on, and all bugs that they saw."""

    nights: Sequence[Past]
    bugs: Sequence[BugHistory]

    @property
    def counts(self) -> Counter[str]:
        """The number of bugs of each status."""
        return Counter(bug.status for bug in self.bugs)


def trends(transaction: Session, nights: Sequence[NightTotals], buckets: Iterable[JoinedBucket]) -> Trends:
    """Return the trends of these nights, in order."""
    seen = [(each.row, set(each.seen), each.passed) for each in buckets if each.seen]
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


def bracket_of(engine: Engine, case_file: str) -> Bracket | None:
    """Return the commits between which the bug of a case file appeared; None if no night says so."""
    seen = view(engine)
    names = {bucket.row.signature for bucket in seen.buckets if bucket.row.case_file == case_file}
    return next((bug.bracket for bug in seen.trends.bugs if bug.signature in names), None)


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
    """Return the last night in which the case passed before its latest failure, and the first failing one after
    that."""
    good = max((night for night in passed if night < max(failed)), default=None)
    return None if good is None else (good, min(night for night in failed if night > good))


def _labels(transaction: Session) -> dict[int, tuple[int, int]]:
    """Return the number of visited labels of the space, and of all its labels, by night."""
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
