"""Beginning a night, or going on with one; how its time is shared out in slices; and how each ends."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

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
"""A night that ended in one of these ways is one that `--resume` goes on with."""
REPLAY_SHARE = 0.25
"""At most this share of a night is for what is known: earlier findings and corpora."""
TRIAGE_SHARE = 0.2
"""At most this share of a night is for shrinking and explaining."""
_SILENT = timedelta(seconds=60)
"""A session that saved nothing for so long has ended, or its machine has lost the store: others may go on with it. The
number is chosen, not measured: a store may be away for a while."""
_LATEST = 16
"""The number of nights that are looked through for one to go on with."""
_FIRST_S, _LONGEST_S = 30.0, 600.0
"""The seconds of an op's first slice and of its longest: short slices come first, so that every op is visited early,
and long ones later, since each begins anew."""


@dataclass(frozen=True)
class Slice:
    """The next slice: which op is searched, with which seed, for how long at most."""

    number: int
    op: str
    seed: int
    seconds: float


def next_turn(
    night_seed: int, number: int, kernels: Mapping[str, int], used: Mapping[str, Sequence[float]], left: float
) -> Slice:
    """The op whose kernels had the least time so far, for twice as long as its slice before; while some had none, for
    no longer than leaves all of these their share. Which of several comes first follows from the seed.

    `kernels` are how many run of each op, whose cases they share; `used` are the seconds of the slices that each op has
    had; `number` counts all slices of the night, also those of earlier sessions, so that no seed is used twice.
    """
    op = min(kernels, key=lambda each: (sum(used.get(each, ())) / kernels[each], _drawn(f"{night_seed}/first/{each}")))
    to_come = sum(count for each, count in kernels.items() if each not in used)
    most = max(left / len(kernels), min(left, _FIRST_S))
    if to_come:
        most = left * (1.0 - TRIAGE_SHARE) * kernels[op] / to_come
    seconds = min(_FIRST_S * 2.0 ** len(used.get(op, ())), _LONGEST_S, most)
    return Slice(number, op, slice_seed(night_seed, number), seconds)


def searching_time(turn: Slice, left: float) -> float:
    """Seconds of search in a slice. While much is left of the night, some is kept for what the slice finds."""
    return min(turn.seconds, left if left <= _FIRST_S else left * (1.0 - TRIAGE_SHARE))


def slice_seed(night_seed: int, number: int) -> int:
    """The seed of one slice, as `kernelfuzz run --seed` takes it."""
    return _drawn(f"{night_seed}/slice/{number}")


def _drawn(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


@dataclass(frozen=True)
class Opened:
    """A night to work on."""

    night: int
    seed: int
    left_s: float
    position: Position
    resumed: bool
    limit_s: float
    """The whole night has this many seconds."""
    command: str
    """How it was started."""


def latest_night(engine: Engine, place: str) -> NightTotals | None:
    """The night that `--resume` goes on with, if it can; None before there is one."""
    with Session(engine) as transaction:
        row = _latest(transaction, place, "nightly")
        return None if row is None else nights_of(transaction)[row.id]


def open_night(
    engine: Engine, seed: int, limit_s: float, command: str, facts: Mapping[str, Any], resume: bool, place: str = "",
    verb: str = "nightly",
) -> Opened:  # fmt: skip
    """The latest night, with `resume` and where it can go on; else a new one with this seed. A night on which another
    `place` is working is left to it."""
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
    """The latest night on which no other place works."""
    nights = transaction.scalars(select(NightRow).filter_by(verb=verb).order_by(NightRow.id.desc()).limit(_LATEST))
    return next((each for each in nights if not _is_busy(transaction, each, place)), None)


def place_of(state: Path) -> str:
    """A name for a folder on this machine that tells nobody which it is."""
    return hashlib.blake2b(f"{platform.node()}/{state.absolute()}".encode(), digest_size=8).hexdigest()


def _is_busy(transaction: Session, night: NightRow, place: str) -> bool:
    """Whether another place works on it. Here nobody does: the folder is locked."""
    latest = select(SessionRow).filter_by(night_id=night.id).order_by(SessionRow.id.desc()).limit(1)
    session = transaction.scalars(latest).one_or_none()
    if session is None or session.ended or session.place == place or session.heard is None:
        return False
    return utc_now() - session.heard < _SILENT


def note_targets(engine: Engine, night: int, targets: Iterable[Target], statuses: Mapping[str, dict[str, Any]]) -> None:
    """What runs in this night and what does not."""
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
    """What this night should visit, as far as the kernels that run take it: what it has not is a coverage gap."""
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
    """A row for the slice and one for each of its shards, and its clock set to zero. Raises FencedError where another
    session has begun it; what this one has begun it has, whether it was told so or not."""
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
    except IntegrityError as error:  # another session came first
        raise FencedError(position.night) from error
    position.slice, position.slice_began, position.epoch = began, time.monotonic(), turn.number


def end_slice(engine: Engine, position: Position) -> None:
    """The slice had the time it was meant to have."""
    with Session(engine) as transaction, transaction.begin():
        transaction.get_one(SliceRow, position.slice).done = True


def close(engine: Engine, position: Position, how: str) -> None:
    """Say how session and night ended: 'limit', 'signal', or 'error', after which a night can go on."""
    with Session(engine) as transaction, transaction.begin():
        transaction.get_one(SessionRow, position.session).ended = how
        transaction.get_one(NightRow, position.night).ended = "" if how == "error" else how
