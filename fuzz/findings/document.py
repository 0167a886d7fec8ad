"""JSON files that anybody may have written: case files, lists of known failures. Reading one takes bounded time
and memory, and every mistake in it raises CaseError."""

from __future__ import annotations

import json
import reprlib
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.core.base.case import CaseError

_MOST_BYTES = 1 << 28
"""The most bytes of a file. The largest cases of a search, with 2^23 random elements, need less than a tenth."""
_MOST_VALUES = 1_000_000
"""The most values in a file, counted as commas and brackets: in memory each may take a hundred times its text."""
_MOST_DIGITS = 1000
"""The most digits of an integer; Python itself reads at most 4300."""
_SHORT = 80


@dataclass(frozen=True)
class Unusable:
    """A placeholder for a value that JSON lacks or that cannot be read. No field accepts its type, so reading such a
    field raises an error that names the field; in other places it does no harm."""

    why: str

    def __repr__(self) -> str:
        return self.why


def read(path: Path) -> Any:
    """Return the contents of a JSON file. Raises CaseError, which names the file."""
    text = read_text(path)
    try:
        return parsed(text)
    except CaseError as error:
        raise CaseError(f"{path}: {error}") from error


def read_text(path: Path) -> str:
    """Return the text of a file. Raises CaseError, which names the file, also for anything but a regular file, since a
    pipe may never end."""
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise CaseError(f"{path}: cannot be read: it is a folder")
        if not stat.S_ISREG(facts.st_mode):
            raise CaseError(f"{path}: cannot be read: it is no regular file")
        if facts.st_size > _MOST_BYTES:
            raise CaseError(f"{path}: has more than {_MOST_BYTES >> 20} MiB, which no such file needs")
        with path.open("rb") as file:
            content = file.read(facts.st_size)  # not more, in case the file grows meanwhile
    except OSError as error:
        raise CaseError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CaseError(f"{path}: not UTF-8 text: byte {error.start} is {content[error.start]:#04x}") from error


def parsed(text: str) -> Any:
    """Return the value of a JSON text. Raises CaseError."""
    if sum(map(text.count, ",[{")) > _MOST_VALUES:
        raise CaseError(f"has more than {_MOST_VALUES:,} values, which no such file needs")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=Unusable)
    except json.JSONDecodeError as error:
        raise CaseError(f"not a JSON file: {error}") from error
    except RecursionError as error:
        raise CaseError("not a JSON file that can be read: it is nested too deeply") from error


def told(value: object) -> str:
    """Return the value as a message shows it, shortened to a few words."""
    return _SHORTENED.repr(value)


_SHORTENED = reprlib.Repr()
_SHORTENED.maxstring = _SHORTENED.maxother = _SHORTENED.maxlong = _SHORT


def _object(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        seen = set()
        for name, _ in members:
            if name in seen:
                found[name] = Unusable("a field that is there twice")
            seen.add(name)
    return found


def _integer(digits: str) -> int | Unusable:
    return int(digits) if len(digits) <= _MOST_DIGITS else Unusable(f"an integer of {len(digits):,} digits")
