"""A store in a database: case files, and what is known of them in tables, where nights and their resumption read it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, case, delete, select, update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from fuzz.findings.accuracy import whereabouts
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.codec import encoded, rule_from_text, rule_to_text
from fuzz.findings.database import name_of, said_by, write_rows
from fuzz.findings.store import Unsaved
from fuzz.findings.tables import (
    AccuracyRow,
    BatchRow,
    BucketRow,
    CounterRow,
    KeptRow,
    PairsRow,
    PassRow,
    SessionRow,
    SightingRow,
    SliceRow,
    TargetRow,
    VersionRow,
)
from fuzz.generate.conditions import Together
from fuzz.triage.attribute.history import Need


def utc_now() -> datetime:
    """The time in UTC, without a zone, as the tables hold it."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


_COLUMNS = [each.name for each in BucketRow.__table__.columns if each.name not in ("id", "signature", "passed_night")]


@dataclass
class Position:
    """Where in a night we are: the slice that is running, and when it and the session began."""

    night: int
    session: int
    earlier_s: float
    """The seconds of the night that earlier sessions have used."""
    began: float
    slice: int = 0
    slice_began: float = 0.0
    triage_s: float = 0.0
    """The seconds of this session that were spent on shrinking and explaining."""
    earlier_triage_s: float = 0.0

    @property
    def minute(self) -> int:
        """The minutes that the night has taken, earlier sittings included."""
        return int((self.earlier_s + time.monotonic() - self.began) // 60)


class DatabaseStore:
    """Saves each batch in one transaction. What cannot be saved waits for the next one."""

    def __init__(self, engine: Engine, folder: Path, position: Position) -> None:
        self.folder = folder
        self._engine = engine
        self._position = position
        self._waiting = Unsaved()
        self._together: dict[str, Together] = {}
        """What is saved of each op, as far as it was looked up."""
        self._rows: dict[str, dict[str, Any]] = {}
        """Each bucket as this store last saw or saved it."""

    def release(self, path: Path, batch: Unsaved) -> None:
        batch.released.append(path)

    def commit(self, batch: Unsaved) -> str:
        self._waiting.add(batch)
        try:
            with Session(self._engine) as transaction, transaction.begin():
                self._save(transaction, self._waiting)
        except (OperationalError, InterfaceError) as error:
            self._together = {}
            return f"{name_of(self._engine)}: {said_by(error)}"
        done, self._waiting = self._waiting, Unsaved()
        gone = {source for source, _ in done.merged}
        for path in set(done.released) - {bucket.path for name, bucket in done.buckets.items() if name not in gone}:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        return ""

    def load(self) -> dict[str, Bucket]:
        """What every bucket keeps, as far as the tables say it."""
        with Session(self._engine) as transaction:
            seen: dict[int, set[str]] = {}
            failed = select(SightingRow.bucket_id, TargetRow.kernel).join(
                TargetRow, TargetRow.name == SightingRow.target
            )
            for bucket, kernel in transaction.execute(failed.distinct()):
                seen.setdefault(bucket, set()).add(kernel)
            rows = transaction.scalars(select(BucketRow).order_by(BucketRow.id)).all()
            self._rows = {row.signature: {name: getattr(row, name) for name in _COLUMNS} for row in rows}
            return {row.signature: self._bucket(row, seen.get(row.id, set())) for row in rows}

    def _bucket(self, row: BucketRow, seen: set[str]) -> Bucket:
        """`seen` are the kernels that failed: others than its own share the source of the fault."""
        return Bucket(
            row.signature, row.kernel, size=(row.size, 0), target=row.target, source=Source(0, row.found_by),
            path=self.folder / row.case_file if row.case_file else None, written=bool(row.case_file),
            need=Need(row.need) if row.need else None, core=rule_from_text(row.core),
            also=frozenset(seen - {row.kernel}), pending=row.triaged != row.digest,
        )  # fmt: skip

    def _save(self, transaction: Session, batch: Unsaved) -> None:
        """All of it is committed by the caller, or nothing."""
        now, position = time.monotonic(), self._position
        night = {"night_id": position.night}
        session = {"used_s": now - position.began, "triage_s": position.triage_s, "heard": utc_now()}
        transaction.execute(update(SessionRow).filter_by(id=position.session).values(session))
        transaction.execute(update(SliceRow).filter_by(id=position.slice).values(seconds=now - position.slice_began))
        transaction.add_all(
            BatchRow(slice_id=slice_, minute=minute, cases=cases, judged=batch.judged[slice_, minute])
            for (slice_, minute), cases in batch.cases.items()
        )
        names = ("what", "subject", "kind", "value")
        counted = [
            {**night, **dict.fromkeys(names, ""), **dict(zip(names, key, strict=False)), "count": count}
            for key, count in batch.counts.items()
        ]
        write_rows(transaction, CounterRow, counted, "count")
        for target, reason in batch.reasons.items():
            transaction.execute(update(TargetRow).filter_by(**night, name=target).values(reason=reason))
        for target, said in batch.broken.items():
            for row in transaction.scalars(select(TargetRow).filter_by(**night, name=target)):
                row.reason, row.attested = said, {**row.attested, "broken": said}
        self._save_accuracy(transaction, batch)
        self._save_pairs(transaction, batch)
        self._save_buckets(transaction, batch)

    def _save_accuracy(self, transaction: Session, batch: Unsaved) -> None:
        def worse(column: str) -> Callable[[Any], Any]:
            old = getattr(AccuracyRow, column)
            return lambda new: case((new.ratio > AccuracyRow.ratio, new[column]), else_=old)

        rows = [
            {"night_id": self._position.night, **vars(point), **vars(worst)} for point, worst in batch.accuracy.items()
        ]
        kept = {name: worse(name) for name in ("n", "climb", "where", "ratio")}
        write_rows(transaction, AccuracyRow, rows, "runs", **kept)

    def _save_pairs(self, transaction: Session, batch: Unsaved) -> None:
        """Hardly ever after the first minutes of a night: by then most pairs were there."""
        for op, together in batch.together.items():
            row = {"night_id": self._position.night, "op": op}
            if op not in self._together:
                saved = transaction.scalar(select(PairsRow.together).filter_by(**row))
                self._together[op] = Together() if saved is None else Together.of_record(op, saved)
            known = self._together[op]
            before = dict(known.beside)
            known.add(together)
            if known.beside != before:
                row["together"] = known.record(op)
                write_rows(transaction, PairsRow, [row], together=lambda new: new.together)

    def _save_buckets(self, transaction: Session, batch: Unsaved) -> None:
        """Others may write to the store, too: what they made of a bucket stays where it is better than what is here."""
        if batch.buckets or batch.merged:
            transaction.scalar(select(VersionRow.version_num).with_for_update())  # one machine after the other
        mine = {name: self._columns(bucket) for name, bucket in batch.buckets.items()}
        named = {*mine, *(name for name, _ in batch.sightings), *(into for _, into in batch.merged)}
        rows = {
            row.signature: row for row in transaction.scalars(select(BucketRow).filter(BucketRow.signature.in_(named)))
        }
        for name in named:
            columns = mine.get(name) or ({} if name in rows else self._rows[name])  # another has merged it, perhaps
            row = rows.get(name)
            if row is None:
                transaction.add(BucketRow(signature=name, **columns))
            elif columns and not self._is_theirs_better(row, columns):
                for column, value in columns.items():
                    setattr(row, column, value)
            self._rows[name] = columns or self._rows.get(name, {})
        transaction.flush()
        self._save_files(transaction, batch)
        ids = dict(transaction.execute(select(BucketRow.signature, BucketRow.id)).all())
        night = self._position.night
        seen = [
            {"bucket_id": ids[name], "night_id": night, "target": target, "count": count}
            for (name, target), count in batch.sightings.items()
        ]
        write_rows(transaction, SightingRow, seen, "count")
        for source, into in batch.merged:
            if source in ids:
                self._merge(transaction, ids[source], ids[into])
        transaction.execute(delete(SightingRow).where(SightingRow.count <= 0))
        gone = {source for source, _ in batch.merged}
        passed = batch.passed - gone - {name for name, _ in batch.sightings}
        write_rows(
            transaction, PassRow, [{"bucket_id": ids[name], "night_id": night} for name in passed if name in ids]
        )
        transaction.execute(update(BucketRow).where(BucketRow.signature.in_(passed)).values(passed_night=night))

    def _is_theirs_better(self, row: BucketRow, mine: Mapping[str, Any]) -> bool:
        """Whether another machine has changed the row since, and its case is smaller, or explained where mine is
        not."""
        known = self._rows.get(row.signature, {})
        if known and known["digest"] == row.digest:
            return False
        return (not row.triaged, row.size) <= (not mine["triaged"], mine["size"])

    def _save_files(self, transaction: Session, batch: Unsaved) -> None:
        """The case files of these buckets, for other machines; those that no bucket names any longer go."""
        files = {b.path.name: b.path for b in batch.buckets.values() if b.path is not None and b.written}
        rows = []
        for name, path in files.items():
            with contextlib.suppress(OSError):
                rows.append({"name": name, "content": path.read_text(encoding="utf-8")})
        write_rows(transaction, KeptRow, rows, replaced=("content",))
        if files or batch.merged:
            transaction.execute(delete(KeptRow).where(KeptRow.name.not_in(select(BucketRow.case_file))))

    def _merge(self, transaction: Session, source: int, into: int) -> None:
        """The findings of every night, and the end of the bucket that had them."""
        rows = select(SightingRow.night_id, SightingRow.target, SightingRow.count).filter_by(bucket_id=source)
        moved = [{"bucket_id": into, **each._mapping} for each in transaction.execute(rows).all()]
        write_rows(transaction, SightingRow, moved, "count")
        transaction.execute(delete(SightingRow).filter_by(bucket_id=source))
        transaction.execute(delete(PassRow).filter_by(bucket_id=source))
        transaction.execute(delete(BucketRow).filter_by(id=source))

    def _columns(self, bucket: Bucket) -> dict[str, Any]:
        case_, judgement = bucket.case, bucket.judgement
        return {
            "kernel": bucket.kernel,
            "op": case_.op,
            "verdict": judgement.verdict.value,
            "law": judgement.broken_law_name,
            "target": judgement.target,
            "case_file": bucket.path.name if bucket.path is not None and bucket.written else "",
            "digest": case_.digest,
            "size": bucket.size[0],
            "where": whereabouts(case_),
            "explanation": encoded(bucket.told),
            "triaged": "" if bucket.pending else case_.digest,
            "found_by": bucket.source.command,
            "need": bucket.need.value if bucket.need else "",
            "core": rule_to_text(bucket.core),
        }
