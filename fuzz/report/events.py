"""Events for programs: stderr has one JSON object on each line, in place of the text for people."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from fuzz.core.base.case import Case
from fuzz.core.judge.judge import Judgement
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Observer, Tally

EVENTS = "KERNELFUZZ_EVENTS"
"""The environment variable that, if not empty, turns stderr into events; the option --events sets it."""
VERSION = 1
INTERVAL = 5.0
"""Seconds between two events of progress: often enough to show life, and seldom enough for a model to read."""


class Started(Struct, frozen=True, tag_field="event", tag="started"):
    """A search begins, or kept cases are run."""

    schema: int
    seed: int
    targets: tuple[str, ...]
    max_time_s: float | None
    max_cases: int | None


class Progressed(Struct, frozen=True, tag_field="event", tag="progress"):
    """The progress of a search, every few seconds."""

    elapsed_s: float
    cases: int
    judged: int
    """The number of judged runs, of which `failing` failed."""
    failing: int


class Found(Struct, frozen=True, tag_field="event", tag="finding"):
    """A failing kernel. The event is sent when the failure is first seen, and again when it is explained."""

    stage: Literal["seen", "explained"]
    kernel: str
    target: str
    verdict: str
    case: str
    """The digest of the case; `repro` and `show` accept its beginning."""
    elapsed_s: float | None
    """The seconds since the start; None for an explained finding."""
    explanation: dict[str, Any] | None
    """The explanation, as in `explanation.schema.json`; None when the finding is first seen."""


class Noted(Struct, frozen=True, tag_field="event", tag="note"):
    """A line that people would read on stderr."""

    text: str


class Ended(Struct, frozen=True, tag_field="event", tag="ended"):
    """The end of the command. It is always the last event."""

    exit: int
    meaning: str
    """The meaning of the exit code."""
    error: str
    """The mistake in the request, or the internal error; '' if there was none."""


Event = Started | Progressed | Found | Noted | Ended


def wanted() -> bool:
    """Whether events are to be written."""
    return bool(os.environ.get(EVENTS))


def write(event: Event) -> None:
    """Write an event at once and in one piece, so that no other line gets in between."""
    os.write(2, msgspec.json.encode(event) + b"\n")


class Notes(io.TextIOBase):
    """A file that turns each line written to it into an event."""

    def __init__(self) -> None:
        self._begun = ""

    def write(self, text: str) -> int:
        """Write an event for each complete line."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            write(Noted(line))
        return len(text)


class EventLog(Observer):
    """An observer that sends events, in place of a live line."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._last = 0.0
        self._seen = set[tuple[str, str]]()

    def started(self, seed: int, targets: Sequence[str], max_time: float | None, max_cases: int | None) -> None:
        """Send the event of a beginning search."""
        write(Started(VERSION, seed, tuple(targets), max_time, max_cases))

    def progress(self, elapsed: float) -> None:
        """Send an event of progress, if the last one is long enough ago."""
        if elapsed - self._last >= INTERVAL:
            self._last = elapsed
            tally = self._tally
            write(Progressed(round(elapsed, 3), tally.cases, tally.judged, tally.findings))

    def failed(self, kernel: str, case: Case, judgement: Judgement, elapsed: float) -> None:
        """Send an event at once for the first failing run of a kernel with this verdict."""
        verdict = judgement.verdict.value
        if (kernel, verdict) not in self._seen:
            self._seen.add((kernel, verdict))
            write(Found("seen", kernel, judgement.target, verdict, case.digest, round(elapsed, 3), None))

    def explained(self, book: FindingBook) -> None:
        """Send an event for each bug with its explanation, at the end."""
        if not book.buckets:
            return
        from fuzz.findings.codec import encoded

        for each in book.buckets.values():
            told = encoded(each.told)
            write(Found("explained", each.kernel, each.target, each.verdict, each.case.digest, None, told))


def schema() -> dict[str, Any]:
    """Return the JSON schema of an event."""
    said = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kernelfuzz event {VERSION}",
        **msgspec.json.schema(Event),
    }
    found: dict[str, Any] = json.loads(json.dumps(said))
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
