"""A store in a database: case files, with tables of what is known of them, which nights and resumed nights read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, case, delete, select, update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from fuzz.core.base.files import set_aside, write_whole
from fuzz.core.generate.conditions import Together
from fuzz.explain.attribute.history import Need
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.codec import encoded, rule_from_text, rule_to_text
from fuzz.findings.database import count_saved, in_memory, is_shared, name_of, said_by, write_rows
from fuzz.findings.state import SHORTEST, FencedError, StateError, fitting
from fuzz.findings.store import Position, Unsaved, read_unsaved, unsaved_path, utc_now, write_unsaved
from fuzz.findings.tables import (
    AccuracyRow,
    BatchRow,
    BucketRow,
    CounterRow,
    JoinRow,
    KeptRow,
    LeaseRow,
    PairsRow,
    PassRow,
    SessionRow,
    SightingRow,
    SliceRow,
    TargetRow,
    VersionRow,
    home_of,
)
from fuzz.findings.tally import whereabouts

_LONGEST_REST_S = 5.0
"""The longest pause in seconds before a store that is away is tried again; usually four times the last attempt."""
_OWN = ("id", "signature", "passed_night", "issue", "issue_open")
_COLUMNS = [each.name for each in BucketRow.__table__.columns if each.name not in _OWN]


class DatabaseStore:
    """A store that saves each batch in one transaction. If that fails, the batch waits for the next commit."""

    def __init__(self, engine: Engine, folder: Path, position: Position) -> None:
        self.folder = folder
        self._engine = engine
        self._position = position
        self._tried: Unsaved | None = None
        """The batch whose transaction failed; the store has all of it or nothing."""
        self._waiting = Unsaved()
        """The batches after the failed one, joined into one."""
        self._again = 0.0
        """The time before which a store that was away is not tried again."""
        self._trouble = ""
        self._together: dict[str, Together] = {}
        """The saved pairs of conditions of each op, as far as they were read."""
        self._rows: dict[str, dict[str, Any]] = {}
        """The row of each bucket, as this store last read or saved it."""

    @property
    def unsaved(self) -> Path:
        """The file for batches that a shared store did not receive; it exists only while there are some."""
        return unsaved_path(self.folder, self._position)

    def release(self, path: Path, batch: Unsaved) -> None:
        batch.released.append(path)

    def commit(self, batch: Unsaved) -> str:
        """Save a batch. Raises FencedError if another session continues the night; nothing later is saved then."""
        batch.rows = {name: self._columns(bucket) for name, bucket in batch.buckets.items()}
        batch.files = _contents(batch.buckets.values())
        self._waiting.add(batch)
        began = time.monotonic()
        if self._trouble and began < self._again:
            return self._keep()
        again = self._tried is not None
        if self._attempt() and (not again or self._attempt()):
            if self._trouble and is_shared(self._engine):
                self.unsaved.unlink(missing_ok=True)
            self._trouble = ""
            return ""
        now = time.monotonic()
        self._again = now + min(_LONGEST_REST_S, 4 * (now - began)) if is_shared(self._engine) else 0.0
        return self._keep()

    def take_in(self, batches: Sequence[Unsaved]) -> str:
        """Save the batches that an earlier process of the session could not. Return the reason if that fails, or ''.
        Raises FencedError."""
        for self._tried in batches:
            if not self._attempt():
                return self._trouble
        return ""

    def in_memory(self, elsewhere: Mapping[str, Path]) -> Engine:
        """Return a copy of a database's file in memory, with the batches that could not be saved. `elsewhere` gives the
        paths of case files, by bucket."""
        engine = in_memory(self._engine)
        copy = DatabaseStore(engine, self.folder, replace(self._position))
        copy.load()
        # Files that the copy no longer names are kept: the state still names them.
        copy.take_in([replace(each, released=[]) for each in (self._tried, self._waiting) if each is not None])
        with Session(engine) as transaction, transaction.begin():
            for name, path in elsewhere.items():
                transaction.execute(update(BucketRow).filter_by(signature=name).values(case_file=str(path)))
        return engine

    def _keep(self) -> str:
        """Keep on this machine the batches that a shared store did not receive. Return the reason if that fails, or
        ''."""
        if not is_shared(self._engine):
            return self._trouble
        batches = [each for each in (self._tried, self._waiting) if each is not None]
        try:
            write_unsaved(self.unsaved, self._position, batches)
        except OSError as error:
            return f"{self._trouble}; {self.unsaved}: {error.strerror}"
        return self._trouble

    def _attempt(self) -> bool:
        """Save the batch that failed before, else the one that waits. Return whether that succeeded."""
        if self._tried is None:
            self._tried, self._waiting = self._waiting, Unsaved()
        batch = self._tried
        try:
            with Session(self._engine) as transaction, transaction.begin():
                self._check_token(transaction)
                if self._is_new(transaction):
                    self._save(transaction, batch)
        except (OperationalError, InterfaceError) as error:
            self._together, self._trouble = {}, f"{name_of(self._engine)}: {said_by(error)}"
            return False
        count_saved(self._engine)
        self._tried, self._position.saved = None, self._position.saved + 1
        gone = {source for source, _ in batch.merged}
        kept = {row["case_file"] for name, row in batch.rows.items() if name not in gone}
        for path in {path for path in batch.released if path.name not in kept}:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        return True

    def _check_token(self, transaction: Session) -> None:
        """Raise FencedError if a token has changed. The epoch's tokens stay locked until the transaction ends."""
        position = self._position
        if position.epoch is None:
            return
        lease = select(LeaseRow.token).filter_by(night_id=position.night, epoch=position.epoch)
        if {*transaction.scalars(lease.with_for_update(read=True))} != {position.token}:
            raise FencedError(position.night)

    def _is_new(self, transaction: Session) -> bool:
        """Whether the batch is not saved yet. It may be, if only the answer to the last commit was lost."""
        position = self._position
        saved = transaction.scalar(select(SessionRow.saved).filter_by(id=position.session).with_for_update())
        return saved == position.saved

    def load(self) -> dict[str, Bucket]:
        """Return all buckets, as far as the tables describe them."""
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
        """Return the bucket of a row. `seen` are the kernels that failed; those other than its own share the source
        with the fault."""
        return Bucket(
            row.signature, row.kernel, size=(row.size, 0), target=row.target, source=Source(0, row.found_by),
            path=self.folder / row.case_file if row.case_file else None, written=bool(row.case_file),
            need=Need(row.need) if row.need else None, core=rule_from_text(row.core),
            also=frozenset(seen - {row.kernel}), pending=row.triaged != row.digest,
        )  # fmt: skip

    def _save(self, transaction: Session, batch: Unsaved) -> None:
        """Write a batch. The caller commits all of it or nothing."""
        position = self._position
        night = {"night_id": position.night}
        session = {
            "used_s": position.used_s, "triage_s": position.triage_s, "heard": utc_now(), "saved": position.saved + 1,
        }  # fmt: skip
        transaction.execute(update(SessionRow).filter_by(id=position.session).values(session))
        transaction.execute(update(SliceRow).filter_by(id=position.slice).values(seconds=position.slice_s))
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
        """Write new pairs of conditions. There are hardly any after the first minutes of a night."""
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
        """Write buckets. Another machine's version of a bucket stays if it is better."""
        if batch.rows or batch.merged:
            transaction.scalar(select(VersionRow.version_num).with_for_update())  # one machine after the other
        named = {*batch.rows, *(name for name, _ in batch.sightings), *(into for _, into in batch.merged)}
        found = transaction.scalars(select(BucketRow).filter(BucketRow.signature.in_(named)))
        rows = {row.signature: row for row in found}
        for name in sorted(named):
            columns, row = batch.rows.get(name), rows.get(name)
            if row is None:  # the bucket is new, or another machine has merged it
                transaction.add(BucketRow(signature=name, **(columns or self._rows[name])))
            elif columns is not None and not self._is_theirs_better(row, columns):
                for column, value in columns.items():
                    setattr(row, column, value)
            if columns is not None:
                self._rows[name] = columns
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
                transaction.execute(update(JoinRow).filter_by(into=source).values(into=into))
        transaction.execute(delete(SightingRow).where(SightingRow.count <= 0))
        gone = {source for source, _ in batch.merged}
        passed = batch.passed - gone - {name for name, _ in batch.sightings}
        write_rows(
            transaction, PassRow, [{"bucket_id": ids[name], "night_id": night} for name in passed if name in ids]
        )
        transaction.execute(update(BucketRow).where(BucketRow.signature.in_(passed)).values(passed_night=night))

    def _is_theirs_better(self, row: BucketRow, mine: Mapping[str, Any]) -> bool:
        """Whether another machine has changed the row, and its case is smaller, or explained while mine is not."""
        known = self._rows.get(row.signature, {})
        if known and known["digest"] == row.digest:
            return False
        return (not row.triaged, row.size) <= (not mine["triaged"], mine["size"])

    def _save_files(self, transaction: Session, batch: Unsaved) -> None:
        """Write the case files of the batch for other machines, and delete those that no bucket names."""
        rows = [{"name": name, "content": content} for name, content in batch.files.items()]
        write_rows(transaction, KeptRow, rows, replaced=("content",))
        if rows or batch.merged:
            transaction.execute(delete(KeptRow).where(KeptRow.name.not_in(select(BucketRow.case_file))))

    def _merge(self, transaction: Session, source: int, into: int) -> None:
        """Move the findings of all nights to another bucket, and delete the bucket that had them."""
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


def _contents(buckets: Iterable[Bucket]) -> dict[str, str]:
    """Return the contents of the buckets' case files by name, as far as they can be read."""
    found = {}
    for path in {bucket.path for bucket in buckets if bucket.path is not None and bucket.written}:
        with contextlib.suppress(OSError):
            found[path.name] = path.read_text(encoding="utf-8")
    return found


def restore(engine: Engine, folder: Path) -> None:
    """Write every case file of the store that is not in the folder yet."""
    with Session(engine) as transaction:
        _write(transaction, folder, transaction.scalars(select(KeptRow.name)).all())


def fetch(engine: Engine, text: str, folder: Path) -> None:
    """Write to the folder those case files of the store whose name or digest begins with `text`."""
    if len(text) < SHORTEST:
        return
    with Session(engine) as transaction:
        names = transaction.scalars(select(KeptRow.name)).all()
        _write(transaction, folder, [path.name for path in fitting(text, [Path(name) for name in names])])


def join(engine: Engine, text: str, other: str) -> str:
    """Merge one bucket into another by hand, both named by their findings. Return a line about it. Raises
    StateError."""
    with Session(engine) as transaction, transaction.begin():
        source, into = _bucket_named(transaction, text), _bucket_named(transaction, other)
        merged = {row.signature: row.into for row in transaction.scalars(select(JoinRow))}
        if home_of(source, merged) == home_of(into, merged):
            raise StateError(f"{text} and {other}: are in one bucket already")
        transaction.merge(JoinRow(signature=source, into=into))
    return f"{source} counts as {into} from now on"


def separate(engine: Engine, text: str) -> str:
    """Split off a bucket that was merged into another by hand. Return a line about it. Raises StateError."""
    with Session(engine) as transaction, transaction.begin():
        name = _bucket_named(transaction, text)
        row = transaction.get(JoinRow, name)
        if row is None:
            raise StateError(f"{text}: {name} was not merged into another bucket by hand")
        transaction.delete(row)
        return f"{name} counts by itself, no more as {row.into}"


def _bucket_named(transaction: Session, text: str) -> str:
    """Return the name of the bucket whose name, or the name or digest of whose case file, is meant. Raises
    StateError."""
    rows = transaction.execute(select(BucketRow.signature, BucketRow.case_file).order_by(BucketRow.id)).all()
    found = [name for name, _ in rows if name == text]
    if not found and len(text) >= SHORTEST:
        found = [name for name, file in rows if fitting(text, [Path(file)])]
    if len(found) == 1:
        return found[0]
    names = ", ".join(found or [name for name, _ in rows]) or "none"
    raise StateError(f"{text}: {'more than one bucket' if found else 'no bucket'} is called so; there are: {names}")


def told_again(engine: Engine, folder: Path) -> Iterator[str]:
    """Save the batches that earlier processes kept for this store, and remove their files. Yield a line for each
    file."""
    for path in sorted(folder.glob("*.unsaved")):
        try:
            position, batches = read_unsaved(path)
            store = DatabaseStore(engine, folder, position)
            store.load()
            trouble = store.take_in(batches)
            yield f"{path}: {f'not saved: {trouble}' if trouble else 'saved now'}"
            if not trouble:
                path.unlink()
        except FencedError as error:
            yield f"{path.name}: {error}"
            path.unlink()
        except ValueError as error:
            yield f"{error}; it is kept as {set_aside(path).name}"


def _write(transaction: Session, folder: Path, names: Iterable[str]) -> None:
    """Write case files. A name that leads out of the folder is skipped: it cannot be ours."""
    for name in names:
        path = folder / name
        if path.name == name and path.suffix == ".json" and not path.exists():
            content = transaction.scalar(select(KeptRow.content).filter_by(name=name))
            write_whole(path, content or "")
