"""Beginning a night, or going on with one; and how each ends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.orm import Session as Transaction

from fuzz.adapters.target import Target
from fuzz.base import __version__
from fuzz.base.kernel import Kernel, capabilities_of
from fuzz.findings.database import BucketRow, CoverageRow, LawRow, Night, Session, SightingRow, Slice, TargetRow, now
from fuzz.findings.rules import rule_from_text
from fuzz.generate.space import space_of
from fuzz.triage.history import Need
from fuzz.uses.nightly.kept import Kept
from fuzz.uses.nightly.recorder import Place
from fuzz.uses.nightly.schedule import Turn

RESUMABLE = ("", "signal")
"""how a night may have ended that `--resume` goes on with."""


@dataclass(frozen=True)
class Opened:
    """A night to work on."""

    night: int
    seed: int
    left_s: float
    place: Place
    resumed: bool


def open_night(
    engine: Engine, seed: int, limit_s: float, command: str, facts: Mapping[str, Any], resume: bool
) -> Opened:
    """The latest night, with `resume` and where it can go on; else a new one with this seed."""
    with Transaction(engine) as transaction, transaction.begin():
        night = transaction.scalars(select(Night).order_by(Night.id.desc()).limit(1)).one_or_none()
        resumed = resume and night is not None and night.ended in RESUMABLE
        if night is not None and not resumed and night.ended == "":
            night.ended = "next night"
        if night is None or not resumed:
            night = Night(seed=seed, started=now(), limit_s=limit_s, version=__version__, command=command)
            night.used_s, night.triage_s = 0.0, 0.0
        night.limit_s, night.command, night.environment, night.ended = limit_s, command, dict(facts), ""
        transaction.add(night)
        transaction.flush()
        session = Session(night_id=night.id, started=now())
        transaction.add(session)
        transaction.flush()
        place = Place(night.id, session.id, night.used_s, time.monotonic(), triage_s=night.triage_s)
        return Opened(night.id, night.seed, max(0.0, limit_s - night.used_s), place, resumed)


def note_targets(engine: Engine, night: int, targets: Iterable[Target], statuses: Mapping[str, dict[str, Any]]) -> None:
    """What runs in this night and what does not; on resuming, the counts stay."""
    rows = [
        {
            "night_id": night,
            "name": target.id,
            "kernel": target.kernel.name,
            "op": target.kernel.op,
            "runs": statuses[target.id]["runs"],
            "reason": statuses[target.id].get("reason", ""),
            "attested": statuses[target.id],
        }
        for target in targets
    ]
    counted = {"judged": 0, "findings": 0, "gave_up": 0, "not_run": 0}
    statement = insert(TargetRow)
    changes = {name: statement.excluded[name] for name in ("runs", "reason", "attested")}
    with Transaction(engine) as transaction, transaction.begin():
        transaction.execute(
            statement.on_conflict_do_update(index_elements=["night_id", "name"], set_=changes),
            [{**row, **counted} for row in rows],
        )


def note_space(engine: Engine, night: int, kernels: Sequence[Kernel], laws: Iterable[str]) -> None:
    """What this night should visit, as far as the kernels that run take it: what it has not is a coverage gap."""
    labels = [
        {"night_id": night, "op": op, "kind": kind, "value": value, "wanted": True, "count": 0}
        for op in sorted({kernel.op for kernel in kernels})
        for kind, values in space_of(capabilities_of(kernels, op)).items()
        for value in values
    ]
    compared = [{"night_id": night, "name": law, "compared": 0} for law in laws]
    with Transaction(engine) as transaction, transaction.begin():
        if labels:
            transaction.execute(insert(CoverageRow).on_conflict_do_nothing(), labels)
        if compared:
            transaction.execute(insert(LawRow).on_conflict_do_nothing(), compared)


def begin_slice(engine: Engine, place: Place, turn: Turn) -> None:
    """A row for the slice, and its clock set to zero."""
    with Transaction(engine) as transaction, transaction.begin():
        row = Slice(night_id=place.night, number=turn.number, op=turn.op, seed=turn.seed)
        transaction.add(row)
        transaction.flush()
        place.slice, place.slice_began = row.id, time.monotonic()


def end_slice(engine: Engine, place: Place) -> None:
    """The slice had the time it was meant to have."""
    with Transaction(engine) as transaction, transaction.begin():
        transaction.get_one(Slice, place.slice).done = True


def slices_of(engine: Engine, night: int) -> list[Slice]:
    """All slices of a night so far, in order."""
    with Transaction(engine, expire_on_commit=False) as transaction:
        return list(transaction.scalars(select(Slice).filter_by(night_id=night).order_by(Slice.number)))


def kept_buckets(engine: Engine) -> dict[str, tuple[Kept, str]]:
    """What every bucket keeps, and the name of its case file, by signature."""
    with Transaction(engine) as transaction:
        seen: dict[int, set[str]] = {}
        failed = select(SightingRow.bucket_id, TargetRow.kernel).join(TargetRow, TargetRow.name == SightingRow.target)
        for bucket, kernel in transaction.execute(failed.distinct()):
            seen.setdefault(bucket, set()).add(kernel)
        rows = transaction.scalars(select(BucketRow))
        return {row.signature: (_kept(row, seen.get(row.id, set())), row.case_file) for row in rows}


def _kept(row: BucketRow, seen: set[str]) -> Kept:
    """`seen` are the kernels that failed: others than its own share the source of the fault."""
    need = Need(row.need) if row.need else None
    pending = row.triaged != row.digest
    core = rule_from_text(row.core)
    also = frozenset(seen - {row.kernel})
    return Kept(row.size, pending=pending, target=row.target, found_by=row.found_by, need=need, core=core, also=also)


def close(engine: Engine, place: Place, how: str) -> None:
    """Say how session and night ended: 'limit', 'signal', or 'error', after which a night can go on."""
    with Transaction(engine) as transaction, transaction.begin():
        transaction.get_one(Session, place.session).ended = how
        transaction.get_one(Night, place.night).ended = "" if how == "error" else how
