"""A store in a database: case files, and what is known of them in tables, where nights and their resumption read it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, case, delete, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from fuzz.findings.accuracy import whereabouts
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.codec import encoded, rule_from_text, rule_to_text
from fuzz.findings.database import write_rows
from fuzz.findings.store import Unsaved
from fuzz.findings.tables import (
    AccuracyRow,
    BatchRow,
    BucketRow,
    CounterRow,
    PairsRow,
    SessionRow,
    SightingRow,
    SliceRow,
    TargetRow,
)
from fuzz.generate.conditions import Together
from fuzz.triage.attribute.history import Need


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

    def release(self, path: Path, batch: Unsaved) -> None:
        batch.released.append(path)

    def commit(self, batch: Unsaved) -> str:
        self._waiting.add(batch)
        try:
            with Session(self._engine) as transaction, transaction.begin():
                self._save(transaction, self._waiting)
        except OperationalError as error:
            self._together = {}
            return f"{self._engine.url.database}: {error.orig}"
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
            rows = transaction.scalars(select(BucketRow).order_by(BucketRow.id))
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
        session = {"used_s": now - position.began, "triage_s": position.triage_s}
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
        for name, bucket in batch.buckets.items():
            row = transaction.query(BucketRow).filter_by(signature=name).one_or_none()
            columns = self._columns(bucket)
            if row is None:
                transaction.add(BucketRow(signature=name, **columns))
            else:
                for column, value in columns.items():
                    setattr(row, column, value)
        transaction.flush()
        ids = dict(transaction.execute(select(BucketRow.signature, BucketRow.id)).all())
        night = self._position.night
        seen = [
            {"bucket_id": ids[name], "night_id": night, "target": target, "count": count}
            for (name, target), count in batch.sightings.items()
        ]
        write_rows(transaction, SightingRow, seen, "count")
        for source, into in batch.merged:
            self._merge(transaction, ids[source], ids[into])
        transaction.execute(delete(SightingRow).where(SightingRow.count <= 0))
        gone = {source for source, _ in batch.merged}
        for name in batch.passed - gone - {name for name, _ in batch.sightings}:
            transaction.execute(update(BucketRow).filter_by(signature=name).values(passed_night=night))

    def _merge(self, transaction: Session, source: int, into: int) -> None:
        """The findings of every night, and the end of the bucket that had them."""
        rows = select(SightingRow.night_id, SightingRow.target, SightingRow.count).filter_by(bucket_id=source)
        moved = [{"bucket_id": into, **each._mapping} for each in transaction.execute(rows).all()]
        write_rows(transaction, SightingRow, moved, "count")
        transaction.execute(delete(SightingRow).filter_by(bucket_id=source))
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
