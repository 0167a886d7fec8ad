"""What is known already of a long measurement: a line of JSON for each correct kernel, so that it can go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import DecodeError, json

from fuzz.base.errors import UsageError
from fuzz.base.kernel import Mutant
from fuzz.quality.detection.hunt import Limits, Seen
from fuzz.quality.detection.ways import Way


@dataclass(frozen=True)
class Asked:
    """One correct kernel with its planted bugs, and how they are looked for: what was answered once need not be asked
    again."""

    base: str
    mutants: tuple[str, ...]
    ways: tuple[str, ...]
    limits: Limits


@dataclass(frozen=True)
class Answer:
    """What came of it."""

    asked: Asked
    seen: tuple[Seen, ...]
    not_run: str = ""
    """Why it could not be measured."""


def asked_of(
    mutants: Sequence[Mutant], ways: Sequence[Way], limits: Limits, controls: Iterable[str] = ()
) -> Iterator[Asked]:
    """What is to be asked of these planted bugs, one question for each correct kernel; of the controls, which are
    correct kernels too, in any case."""
    by_base: dict[str, list[str]] = {each: [] for each in controls}
    for mutant in mutants:
        by_base.setdefault(mutant.base, []).append(mutant.name)
    for base, names in by_base.items():
        yield Asked(base, tuple(names), tuple(way.name for way in ways), limits)


def known(path: Path | None) -> Mapping[Asked, Answer]:
    """The answers of a file; none where there is no such file. A last line that was not finished is left out. Raises
    UsageError for what is no such file."""
    if path is None or not path.exists():
        return {}
    lines = path.read_bytes().splitlines(keepends=True)
    try:
        answers = [json.decode(line, type=Answer) for line in lines if line.endswith(b"\n")]
    except DecodeError as error:
        raise UsageError(f"--state {path}: not written by this command: {error}") from error
    return {each.asked: each for each in answers}


def keep(path: Path | None, answer: Answer) -> None:
    """Add an answer to the file. Raises UsageError where that cannot be written."""
    if path is None:
        return
    try:
        with path.open("ab") as file:
            file.write(json.encode(answer) + b"\n")
    except OSError as error:
        raise UsageError(f"--state {path}: {error.strerror}") from error
