"""How a night and its slices are begun, resumed and closed."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.adapters.target import Target
from fuzz.core.base import __version__
from fuzz.core.base.feature import label_words
from fuzz.core.base.kernel import Kernel, capabilities_of
from fuzz.core.generate.search import SHARDS
from fuzz.core.generate.space import space_of
from fuzz.findings.database import write_rows
from fuzz.findings.database_views import NightTotals, nights_of
from fuzz.findings.state import FencedError
from fuzz.findings.store import Position, utc_now
from fuzz.findings.tables import CounterRow, LeaseRow, NightRow, SessionRow, SliceRow, TargetRow

RESUMABLE = ("", "signal")
"""The ends of a night after which `--resume` continues it; '' stands for a kill or an error."""
KNOWN_SHARE = 0.25
"""The largest share of a night for running what is known: earlier findings and corpora."""
_SILENT = timedelta(seconds=60)
"""A session that saved nothing for this long counts as ended, and another place may continue its night. Chosen: a store
may be out of reach for a while."""
_LATEST = 16
"""The number of latest nights among which one to continue is looked for."""


@dataclass(frozen=True)
class Opened:
    """A night that this session works on."""

    night: int
    seed: int
    left_s: float
    position: Position
    resumed: bool
    limit_s: float
    """The seconds of the whole night."""
    command: str
    """The command that started the night."""


def latest_night(engine: Engine, place: str) -> NightTotals | None:
    """Return the night that `--resume` continues; None if there is none."""
    with Session(engine) as transaction:
        row = _latest(transaction, place, "nightly")
        return None if row is None else nights_of(transaction)[row.id]


def open_night(
    engine: Engine, seed: int, limit_s: float, command: str, facts: Mapping[str, Any], resume: bool, place: str = "",
    verb: str = "nightly",
) -> Opened:  # fmt: skip
    """Return the latest night if `resume` is true and it can be continued, else a new one with this seed. A night on
    which another `place` works is left alone."""
    with Session(engine) as transaction, transaction.begin():
        night = _latest(transaction, place, verb)
        resumed = resume and night is not None and night.ended in RESUMABLE
        if night is not None and not resumed and night.ended == "":
            night.ended = "next night"
        if night is None or not resumed:
            night = NightRow(seed=seed, started=utc_now(), version=__version__, verb=verb)
        night.limit_s, night.command, night.environment, night.ended = limit_s, command, dict(facts), ""
        transaction.add(night)
        transaction.flush()
        times = select(func.sum(SessionRow.used_s), func.sum(SessionRow.triage_s)).filter_by(night_id=night.id)
        used_s, triage_s = (seconds or 0.0 for seconds in transaction.execute(times).one())
        session = SessionRow(night_id=night.id, started=utc_now(), place=place, heard=utc_now())
        transaction.add(session)
        transaction.flush()
        position = Position(night.id, session.id, used_s, time.monotonic(), earlier_triage_s=triage_s)
        transaction.execute(update(LeaseRow).filter_by(night_id=night.id).values(token=position.token))
        return Opened(night.id, night.seed, max(0.0, limit_s - used_s), position, resumed, limit_s, command)


def _latest(transaction: Session, place: str, verb: str) -> NightRow | None:
    """Return the latest night on which no other place works."""
    nights = transaction.scalars(select(NightRow).filter_by(verb=verb).order_by(NightRow.id.desc()).limit(_LATEST))
    return next((each for each in nights if not _is_busy(transaction, each, place)), None)


def folder_digest(state: Path) -> str:
    """Return a digest that identifies a folder on this machine without revealing its name."""
    return hashlib.blake2b(f"{platform.node()}/{state.absolute()}".encode(), digest_size=8).hexdigest()


def _is_busy(transaction: Session, night: NightRow, place: str) -> bool:
    """Whether another place works on the night. This place does not: its folder is locked."""
    latest = select(SessionRow).filter_by(night_id=night.id).order_by(SessionRow.id.desc()).limit(1)
    session = transaction.scalars(latest).one_or_none()
    if session is None or session.ended or session.place == place or session.heard is None:
        return False
    return utc_now() - session.heard < _SILENT


def note_targets(engine: Engine, night: int, targets: Iterable[Target], statuses: Mapping[str, dict[str, Any]]) -> None:
    """Record which targets run in this night, and why others do not."""
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
    with Session(engine) as transaction, transaction.begin():
        write_rows(transaction, TargetRow, rows, replaced=("runs", "reason", "attested"))


def note_space(engine: Engine, night: int, kernels: Sequence[Kernel], laws: Iterable[str]) -> None:
    """Record the space that this night should visit, as far as the running kernels accept it: the parts that it does
    not visit are its coverage gaps."""
    labels = [
        {"what": "space", "subject": op, **dict(zip(("kind", "value"), label_words((kind, value)), strict=True))}
        for op in sorted({kernel.op for kernel in kernels})
        for kind, values in space_of(capabilities_of(kernels, op)).items()
        for value in values
    ]
    compared = [{"what": "compared", "subject": law, "kind": "", "value": ""} for law in laws]
    with Session(engine) as transaction, transaction.begin():
        write_rows(transaction, CounterRow, [{"night_id": night, "count": 0, **each} for each in (*labels, *compared)])


def begin_slice(engine: Engine, position: Position, turn: Slice) -> None:
    """Insert a row for the slice and one for each of its shards, and start its clock. Raises FencedError if another
    session has begun the slice. If this session did, and only the store's answer was lost, it is no error."""
    shards = {"night_id": position.night, "epoch": turn.number}
    try:
        with Session(engine) as transaction, transaction.begin():
            lease = transaction.scalar(select(LeaseRow.token).filter_by(**shards).limit(1))
            if lease not in (None, position.token):
                raise FencedError(position.night)
            row = transaction.scalar(select(SliceRow).filter_by(night_id=position.night, number=turn.number))
            if row is None or lease is None:
                row = SliceRow(night_id=position.night, number=turn.number, op=turn.op, seed=turn.seed)
                transaction.add(row)
                leases = [{**shards, "shard": shard, "token": position.token} for shard in range(SHARDS)]
                transaction.execute(insert(LeaseRow), leases)
            transaction.flush()
            began = row.id
    except IntegrityError as error:  # another session was first
        raise FencedError(position.night) from error
    position.slice, position.slice_began, position.epoch = began, time.monotonic(), turn.number


def end_slice(
    engine: Engine, position: Position, searched_s: float = 0.0, new: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Record that the slice had its full time: for how long it searched, and what it showed that was new."""
    with Session(engine) as transaction, transaction.begin():
        row = transaction.get_one(SliceRow, position.slice)
        row.done, row.searched_s, row.new = True, searched_s, dict(new)


def close(engine: Engine, position: Position, how: str) -> None:
    """Record how the session and the night ended: 'limit', 'signal', or 'error', after which the night can be
    resumed."""
    with Session(engine) as transaction, transaction.begin():
        transaction.get_one(SessionRow, position.session).ended = how
        transaction.get_one(NightRow, position.night).ended = "" if how == "error" else how
