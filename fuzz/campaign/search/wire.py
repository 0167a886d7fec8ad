"""Messages between a search and its processes, in MessagePack and not in pickle; facts that both sides know are left
out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Struct

from fuzz.campaign.search.turn_runner import FindingId, TurnJob, TurnReport
from fuzz.core.base.case import Case
from fuzz.core.execute.batch import Wait
from fuzz.core.generate.conditions import Together
from fuzz.core.judge.judge import Judgement
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS


class Start(Struct, tag="start"):
    """Asks a process to start its workers."""


class Cut(Struct, tag="cut"):
    """Asks a process to stop waiting for the cases that run."""


class Take(Struct, tag="take"):
    """Asks a process to take a turn."""

    task: TurnJob
    lessons: list[bytes]
    """The lessons of the positions that the process does not know yet, each as in its report."""
    kept: list[FindingId]


class CallsRequest(Struct, tag="ask"):
    """Asks a process for the calls before a finding."""

    finding: FindingId


class WorkersStarted(Struct, tag="started"):
    """Says that the workers have started."""

    missing: dict[str, str]
    """The reasons why targets have no worker, by target."""
    attested: dict[str, dict[str, Any]]
    """The attestations of the other targets, by target."""


@dataclass(frozen=True)
class RemoteWait(Wait):
    """A wait in another process, in the words of that process."""

    said: str = ""
    named: str = ""

    @property
    def name(self) -> str:
        return self.named

    @property
    def words(self) -> str:
        return self.said


class Waiting(Struct, tag="waiting"):
    """Says that some cases take long."""

    waits: list[RemoteWait]


class Calls(Struct, tag="calls"):
    """Answers with the calls before a finding."""

    cases: list[Case]


class Failed(Struct, tag="failed"):
    """Says that the process met an error, and ends."""

    error: str
    trace: str
    usage: bool = False
    """Whether the user made the error, which is then reported in one line."""


class TurnTaken(Struct, tag="taken"):
    """Says that a turn was taken: its report, and the state of the process."""

    plain: TurnReport
    """The report without laws, which contain code and cannot be sent."""
    laws: list[tuple[str, int] | None]
    """The name and key of the law of each failing run, in order; None for a run without a law."""
    resident: int
    restarts: dict[str, int]

    @property
    def report(self) -> TurnReport:
        """The whole report, with its laws."""
        laws = iter([None if each is None else LawCheck(LAWS[each[0]], each[1]) for each in self.laws])
        return _with_runs(self.plain, lambda run: replace(run, law=next(laws)))


def taken(report: TurnReport, resident: int, restarts: Mapping[str, int]) -> TurnTaken:
    """Return the message for a report. The case of a failing run is sent as a digest only, besides the evidence."""
    checks = [run.law for each in report.sightings for run in each.judgements]
    plain = _with_runs(report, lambda run: replace(run, of=run.case, law=None))
    laws = [None if check is None else (check.name, check.key) for check in checks]
    return TurnTaken(plain, laws, resident, dict(restarts))


def _with_runs(report: TurnReport, changed: Callable[[Judgement], Judgement]) -> TurnReport:
    """Return the report after `changed` was applied to its failing runs."""
    sightings = [replace(each, judgements=list(map(changed, each.judgements))) for each in report.sightings]
    return replace(report, sightings=sightings)


def _to(value: object) -> Any:
    if isinstance(value, Together):  # its integers have hundreds of bits
        return [(f"{bit:x}", f"{others:x}") for bit, others in value.beside.items()]
    assert isinstance(value, np.ndarray), "a mask"
    return value.shape, np.packbits(value).tobytes()


def _back(kind: Any, value: Any) -> Any:
    if kind is Together:
        return Together({int(bit, 16): int(others, 16) for bit, others in value})
    if get_origin(kind) is Counter:
        return Counter(msgspec.convert(value, dict[get_args(kind)[0], int]))  # type: ignore[misc]
    shape, packed = value
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=int(np.prod(shape))).astype(bool).reshape(shape)


packed = msgspec.msgpack.Encoder(enc_hook=_to).encode
order = msgspec.msgpack.Decoder(Start | Cut | Take | CallsRequest).decode
"""Decodes a message to a process."""


class _Rest(Struct):
    """The part of a report that tells how many pieces follow."""

    rest: int = 0


class Passed(Struct, tag="taken"):
    """A taken turn, as read by a process that forwards the report undecoded."""

    plain: _Rest


passing = msgspec.msgpack.Decoder(WorkersStarted | Waiting | Passed | Calls | Failed).decode
"""Decodes a message of a process whose reports are forwarded."""
answer = msgspec.msgpack.Decoder(WorkersStarted | Waiting | TurnTaken | Calls | Failed, dec_hook=_back).decode
"""Decodes a message of a process."""
