"""Events for programs: one JSON object a line on stderr, in place of the words that people read there."""

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
"""If this environment variable is not empty, stderr has an event on each line; the option --events sets it."""
VERSION = 1
INTERVAL = 5.0
"""Seconds between two events of progress: often enough to show that it lives, seldom enough for a model to read."""


class Started(Struct, frozen=True, tag_field="event", tag="started"):
    """A search begins, or a replay of kept cases."""

    schema: int
    seed: int
    targets: tuple[str, ...]
    max_time_s: float | None
    max_cases: int | None


class Progressed(Struct, frozen=True, tag_field="event", tag="progress"):
    """How far it is, every few seconds."""

    elapsed_s: float
    cases: int
    judged: int
    """The number of judged runs; `failing` counts those that failed."""
    failing: int


class Found(Struct, frozen=True, tag_field="event", tag="finding"):
    """A kernel fails. Sent when that is seen first, and again when it is explained."""

    stage: Literal["seen", "explained"]
    kernel: str
    target: str
    verdict: str
    case: str
    """The digest of the case, whose beginning `repro` and `show` take."""
    elapsed_s: float | None
    """None where it is explained."""
    explanation: dict[str, Any] | None
    """As in `explanation.schema.json`; None where it is only seen."""


class Noted(Struct, frozen=True, tag_field="event", tag="note"):
    """A line that a person would read on stderr."""

    text: str


class Ended(Struct, frozen=True, tag_field="event", tag="ended"):
    """The command ends: the last event of each, whatever happened."""

    exit: int
    meaning: str
    """What that exit code means."""
    error: str
    """What was wrong with the request or inside; '' where nothing was."""


Event = Started | Progressed | Found | Noted | Ended


def wanted() -> bool:
    """Whether events are to be written."""
    return bool(os.environ.get(EVENTS))


def write(event: Event) -> None:
    """Write it at once, in one piece: no other line gets in between."""
    os.write(2, msgspec.json.encode(event) + b"\n")


class Notes(io.TextIOBase):
    """A file in which each line written is an event."""

    def __init__(self) -> None:
        self._begun = ""

    def write(self, text: str) -> int:
        """Send the complete lines."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            write(Noted(line))
        return len(text)


class EventLog(Observer):
    """Sends what is judged, in place of a live line."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._last = 0.0
        self._seen = set[tuple[str, str]]()

    def started(self, seed: int, targets: Sequence[str], max_time: float | None, max_cases: int | None) -> None:
        """Send what begins."""
        write(Started(VERSION, seed, tuple(targets), max_time, max_cases))

    def progress(self, elapsed: float) -> None:
        """Send the progress, if the last event is long enough ago."""
        if elapsed - self._last >= INTERVAL:
            self._last = elapsed
            tally = self._tally
            write(Progressed(round(elapsed, 3), tally.cases, tally.judged, tally.findings))

    def failed(self, kernel: str, case: Case, judgement: Judgement, elapsed: float) -> None:
        """Send the first run of a kernel that fails with this verdict, at once."""
        verdict = judgement.verdict.value
        if (kernel, verdict) not in self._seen:
            self._seen.add((kernel, verdict))
            write(Found("seen", kernel, judgement.target, verdict, case.digest, round(elapsed, 3), None))

    def explained(self, book: FindingBook) -> None:
        """Send what is known of each bug in the end."""
        if not book.buckets:
            return
        from fuzz.findings.codec import encoded

        for each in book.buckets.values():
            told = encoded(each.told)
            write(Found("explained", each.kernel, each.target, each.verdict, each.case.digest, None, told))


def schema() -> dict[str, Any]:
    """Return the JSON schema of a line."""
    said = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kernelfuzz event {VERSION}",
        **msgspec.json.schema(Event),
    }
    found: dict[str, Any] = json.loads(json.dumps(said))
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
