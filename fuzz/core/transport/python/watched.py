"""A worker that a tool watches: what the tool reported about calls since it was last asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

REPORT = "KERNELFUZZ_REPORT"
"""The variable that names the file to which the tool adds its reports."""
_MARK = "========="
_END = f"{_MARK} END"
_NO_ERRORS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "Warning:", "Info:")
"""Beginnings of records that are no errors."""
_RACE = "Warning: Race reported"
"""The beginning of a record about threads of a warp that do not wait for each other. It is called a warning, since some
programs rely on a warp's threads keeping step: from Volta on they need not (CUDA C++ Programming Guide, independent
thread scheduling)."""
_CHANGES = "Address "
"""The beginning of a line that differs each time."""
_MOST_BYTES = 1 << 16
"""The most bytes that are kept: the first error takes less, and nothing of others is kept."""


class Report:
    """The file of a tool's reports. Nobody else can open it: its name is removed at once."""

    def __init__(self) -> None:
        path = os.environ.pop(REPORT)
        self._descriptor = os.open(path, os.O_RDONLY)
        Path(path).unlink()

    def words(self) -> str:
        """Return the first error that was reported since the last time, in one line, or ''."""
        text = os.read(self._descriptor, _MOST_BYTES).decode(errors="replace")
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return next(_errors(text.splitlines()), "")


def _errors(lines: Iterable[str]) -> Iterator[str]:
    """Yield each error, from records whose lines are indented except the first."""
    record: list[str] = []
    for line in (*lines, _END):
        said = line.removeprefix(_MARK).removeprefix(" ")
        if said[:1].strip():
            if record and (record[0].startswith(_RACE) or not record[0].startswith(_NO_ERRORS)):
                yield " ".join(record).removeprefix("Error: ").removeprefix("Warning: ")
            record = []
        if words := said.strip():
            record += [] if words.startswith(_CHANGES) else [words]
