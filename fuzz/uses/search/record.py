"""The record of a search: what its guides were told, in the order of its turns. From it the cases that they proposed
come back bit for bit; all others follow from seed, shard and number alone."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from msgspec import MsgspecError

from fuzz.base.errors import UsageError
from fuzz.base.files import write_whole
from fuzz.findings.book import FindingBook
from fuzz.generate.search import Search
from fuzz.generate.turn import BATCH, PLACES, Made, Turn
from fuzz.uses.search.guide import Elite, Guide, Lesson, lessons_from
from fuzz.uses.search.schedule import LEAST_LAG, Schedule, in_order, known_at
from fuzz.uses.search.turn_runner import placed

_KIND, _VERSION = "kernelfuzz search", 1
_MOST_BYTES = 1 << 28
"""A record is no longer. An hour of search on sixteen processors leaves some megabytes."""
_MOST_ELEMENTS = 1 << 24
"""A draw of a record asks for no larger tensor: none of a search has more elements."""


def record_path(folder: Path, op: str, seed: int) -> Path:
    """Where the record of a search is kept, beside its findings."""
    return folder / f"search-{seed}-{op}.jsonl"


def keep_record(schedule: Schedule, book: FindingBook, *, named: bool = False) -> None:
    """Save the record where a finding of that search is a case that a guide proposed, or where others were `named`."""
    origins = [b.case.origin for b in book.buckets.values() if b.finding is not None and b.case.op == schedule.op]
    if named or any(isinstance(each.shard, int) and each.number % PLACES > BATCH for each in origins):
        path = record_path(book.store.folder, schedule.op, schedule.seed)
        try:
            write_record(path, schedule)
        except OSError as error:
            book.trouble = f"{path}: cannot be written: {error.strerror}"


def write_record(path: Path, schedule: Schedule) -> None:
    """Save the record of a search. Raises OSError."""
    chosen = [place for place, each in enumerate(schedule.search.capabilities) if each in schedule.chosen]
    head = {
        _KIND: _VERSION,
        "op": schedule.op,
        "seed": schedule.seed,
        "chosen": chosen,
        "counted": schedule.is_counted,
        "lag": schedule.least_lag,
    }
    lines = [json.dumps(head, separators=(",", ":")), *map(_text, schedule.lessons)]
    write_whole(path, "".join(f"{line}\n" for line in lines))


def recorded(path: Path, search: Search, shard: int, number: int) -> Made | None:
    """The case of that shard and number that a guide proposed; None where it proposed none. Raises UsageError for a
    record that is missing, broken or of another pack."""
    turn, place = Turn(shard, number // PLACES), number % PLACES
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: has more than {_MOST_BYTES >> 20} MiB: it is no record of a search")
        first, *lines = path.read_text(encoding="utf-8").splitlines()
        head = json.loads(first)
        chosen = [search.capabilities[each] for each in head["chosen"]]
        steps = (each for each in in_order(search, chosen) if head["counted"] or isinstance(each, Turn))
        index = next(index for index, each in enumerate(steps) if each == turn or index > len(lines) + PLACES)
        guide = Guide(search.seed, search.capabilities)
        for line in lines[: known_at(index, int(head.get("lag", LEAST_LAG)))]:
            lessons = msgspec.json.decode(line, type=list[Lesson])
            for elite in [each for each in lessons if isinstance(each, Elite)]:
                if elite.draw.n * elite.draw.rows > _MOST_ELEMENTS:
                    raise UsageError(f"{path}: asks for tensors that no search has")
                if not 0 <= elite.capability < len(search.capabilities):
                    raise UsageError(f"{path}: is no record of this search: it has no capability {elite.capability}")
            guide.learn(lessons)
    except OSError as error:
        raise UsageError(
            f"{search.seed}:{search.op}:{shard}:{number}: a guide proposed this case, and the record of the search is "
            f"missing: {path}: {error.strerror}; see --findings, or replay its case file. A run with --json keeps it"
        ) from error
    except (MsgspecError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: is no record of this search: {error!r}") from error
    found = guide.relatives(index, lambda proposed: search.relatives(placed(proposed), turn))
    return next((each for each in found if each.case.origin.number % PLACES == place), None)


def _text(lessons: bytes) -> str:
    return msgspec.json.encode(lessons_from(lessons)).decode()
