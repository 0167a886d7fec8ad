"""A worker under a watching tool: the errors that the tool reported about calls since it was last asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

REPORT = "KERNELFUZZ_REPORT"
"""The variable that names the file to which the tool appends its reports."""
_MARK = "========="
_END = f"{_MARK} END"
_NO_ERRORS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "Warning:", "Info:")
"""The first words of records that are not errors."""
_RACE = "Warning: Race reported"
"""The first words of a record about threads of a warp that do not wait for each other. The tool calls it a warning,
since some programs rely on the threads of a warp to keep step. From Volta on they need not (CUDA C++ Programming Guide,
independent thread scheduling)."""
_CHANGES = "Address "
"""The first word of a line that differs each time."""
_MOST_BYTES = 1 << 16
"""The largest number of bytes that are read. The first error takes less, and further errors are dropped."""


class Report:
    """The file of a tool's reports. Its name is removed at once, so nobody else can open it."""

    def __init__(self) -> None:
        path = os.environ.pop(REPORT)
        self._descriptor = os.open(path, os.O_RDONLY)
        Path(path).unlink()

    def words(self) -> str:
        """Return the first error that was reported since the last call, in one line, or ''."""
        text = os.read(self._descriptor, _MOST_BYTES).decode(errors="replace")
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return next(_errors(text.splitlines()), "")


def _errors(lines: Iterable[str]) -> Iterator[str]:
    """Yield each error. All lines of a record are indented, except the first."""
    record: list[str] = []
    for line in (*lines, _END):
        said = line.removeprefix(_MARK).removeprefix(" ")
        if said[:1].strip():
            if record and (record[0].startswith(_RACE) or not record[0].startswith(_NO_ERRORS)):
                yield " ".join(record).removeprefix("Error: ").removeprefix("Warning: ")
            record = []
        if words := said.strip():
            record += [] if words.startswith(_CHANGES) else [words]
