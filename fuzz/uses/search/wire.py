"""Messages between a search and its processes, in MessagePack: records, but for what both sides know.

Nothing of ours is pickled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_origin

import msgspec
import numpy as np
from msgspec import Struct

from fuzz.base.capability import Capability
from fuzz.base.case import Case
from fuzz.base.draw import Draw
from fuzz.execute.lane import Wait
from fuzz.findings.tally import Sighting, Tally
from fuzz.generate.conditions import Together
from fuzz.judge.judge import Judgement
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import LAWS
from fuzz.uses.search.calls import FindingId
from fuzz.uses.search.guide import Attempt, Cell, Elite, Lesson, Lessons
from fuzz.uses.search.taker import Report, Task


class Start(Struct, tag="start"):
    """Workers are to be started."""


class Cut(Struct, tag="cut"):
    """Cases that run are to be waited for no longer."""


class Take(Struct, tag="take"):
    """A turn is to be taken."""

    task: Task
    lessons: list[bytes]
    """Those of the places after the last that the process was told of, each as in its report."""
    kept: list[FindingId]


class Ask(Struct, tag="ask"):
    """The calls before a finding are asked for."""

    finding: FindingId


class Started(Struct, tag="started"):
    """Workers are there."""

    missing: dict[str, str]
    """Why a target has none."""


@dataclass(frozen=True)
class Told(Wait):
    """What another process waits for, in its words."""

    said: str = ""

    @property
    def words(self) -> str:
        return self.said


class Waiting(Struct, tag="waiting"):
    """Some cases take long."""

    waits: list[Told]


class Calls(Struct, tag="calls"):
    """The calls before a finding."""

    cases: list[Case]


class Failed(Struct, tag="failed"):
    """An error of ours."""

    error: str
    trace: str


class _Sighting(Struct, array_like=True):
    case: int
    judgement: Judgement
    law: tuple[str, int] | None
    verdicts: dict[str, str]


class Taken(Struct, tag="taken"):
    """A turn was taken: what came of it, with each case once, and how the process is."""

    task: Task
    tally: Tally
    state: bytes
    cases: list[Case]
    sightings: list[_Sighting]
    lessons: bytes
    errors: list[tuple[str, Case]]
    records: list[str]
    resident: int
    restarts: dict[str, int]

    @property
    def report(self) -> Report:
        """The report. Its lessons are left as they came, since they are only handed on."""
        found = []
        for each in self.sightings:
            law = None if each.law is None else LawCheck(LAWS[each.law[0]], each.law[1])
            found.append(Sighting(self.cases[each.case], replace(each.judgement, law=law), each.verdicts))
        return Report(self.task, self.tally, self.state, found, self.lessons, self.errors, self.records)


def taken(report: Report, capabilities: Sequence[Capability], resident: int, restarts: Mapping[str, int]) -> Taken:
    """The message of a report; `capabilities` are those of its search."""
    places: dict[int, int] = {}
    cases, seen = list[Case](), list[_Sighting]()
    for each in report.sightings:
        if id(each.case) not in places:
            places[id(each.case)] = len(cases)
            cases.append(each.case)
        judgement, law = replace(each.judgement, of=each.judgement.case, law=None), each.judgement.law
        checked = None if law is None else (law.name, law.key)
        seen.append(_Sighting(places[id(each.case)], judgement, checked, dict(each.verdicts)))
    return Taken(
        report.task, report.tally, report.state, cases, seen, lessons_to(report.lessons, capabilities), report.errors,
        report.records, resident, dict(restarts),
    )  # fmt: skip


class _Elite(Struct, tag="elite", array_like=True):
    kernel: str
    cell: Cell
    ratio: float
    draw: Draw
    capability: int
    """Its place among those of the search."""


class _Attempt(Struct, tag="attempt", array_like=True):
    kernel: str
    cell: Cell
    change: str
    worse: bool


_Lessons = list[_Elite | _Attempt]


def lessons_to(lessons: Iterable[object], capabilities: Sequence[Capability]) -> bytes:
    """Lessons of a search with these capabilities: both sides know them in this order."""
    known: _Lessons = []
    for each in lessons:
        if isinstance(each, Attempt):
            known.append(_Attempt(each.kernel, each.cell, each.change, each.worse))
        elif isinstance(each, Elite) and each.capability in capabilities:
            place = capabilities.index(each.capability)
            known.append(_Elite(each.kernel, each.cell, each.ratio, each.draw, place))
    return _PACKER.encode(known)


def lessons_from(message: bytes, capabilities: Sequence[Capability]) -> list[Lesson]:
    """The inverse of `lessons_to`."""
    return _lessons(_LESSONS.decode(message) if message else [], capabilities)


def lessons_text(lessons: Lessons) -> str:
    """Lessons, as they are in a message, in a line of JSON."""
    assert isinstance(lessons, bytes)
    return msgspec.json.encode(_LESSONS.decode(lessons) if lessons else []).decode()


def lessons_of_text(text: str, capabilities: Sequence[Capability]) -> list[Lesson]:
    """The inverse of `lessons_text`. Raises MsgspecError or IndexError."""
    return _lessons(msgspec.json.decode(text, type=_Lessons), capabilities)


def _lessons(known: _Lessons, capabilities: Sequence[Capability]) -> list[Lesson]:
    return [
        Elite(each.kernel, each.cell, each.ratio, each.draw, capabilities[each.capability])
        if isinstance(each, _Elite)
        else Attempt(each.kernel, each.cell, each.change, each.worse)
        for each in known
    ]


def _to(value: object) -> Any:
    if isinstance(value, Together):  # whose integers have hundreds of bits
        return [(f"{bit:x}", f"{others:x}") for bit, others in value.beside.items()]
    assert isinstance(value, np.ndarray), "a mask"
    return value.shape, np.packbits(value).tobytes()


def _back(kind: Any, value: Any) -> Any:
    if kind is Together:
        return Together({int(bit, 16): int(others, 16) for bit, others in value})
    if get_origin(kind) is Counter:
        return Counter(value)
    shape, packed = value
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=int(np.prod(shape))).astype(bool).reshape(shape)


_PACKER = msgspec.msgpack.Encoder(enc_hook=_to)
_LESSONS = msgspec.msgpack.Decoder(_Lessons)
packed = _PACKER.encode
order = msgspec.msgpack.Decoder(Start | Cut | Take | Ask).decode
"""What a process is told."""
answer = msgspec.msgpack.Decoder(Started | Waiting | Taken | Calls | Failed, dec_hook=_back).decode
"""What it says."""
