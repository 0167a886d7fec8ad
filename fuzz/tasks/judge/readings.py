"""References that were read already, for processes that are forked to judge solutions of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from fuzz.references.derive import Derived
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.judging import read_statement
from fuzz.tasks.readers.formats import names_read
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import Statement

_Stamp = tuple[int, int]


class Readings:
    """The results of reading references, or the errors, which are valid as long as the files are unchanged."""

    def __init__(self) -> None:
        self._known = dict[object, tuple[Statement, Derived] | TaskError]()
        self._stamps: Mapping[Path, _Stamp] = {}
        self._threads = 0

    def know(self, asked: Asked) -> None:
        """Read the problem, unless it is known. If a file of an earlier problem has changed, end the process, since
        Python would keep what it has imported."""
        if any(_stamp(path) != stamp for path, stamp in self._stamps.items()):
            os._exit(0)
        if (key := _key(asked)) in self._known:
            return
        import torch

        # A forked process lacks this process's threads, and OpenMP would wait for them.
        self._threads = self._threads or torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            self._known[key] = read_statement(asked)
        except TaskError as error:
            self._known[key] = error
        except Exception:  # a forked process reads the problem again and reports the error
            return
        self._stamps = {path: _stamp(path) for path in _files(asked.against)}

    def begin(self) -> None:
        """Set the number of threads back to what it was, in a process that was forked."""
        import torch

        torch.set_num_threads(self._threads or torch.get_num_threads())

    def read(self, asked: Asked) -> tuple[Statement, Derived]:
        """Return or raise what `read_statement` does for this request."""
        known = self._known.get(_key(asked))
        if isinstance(known, TaskError):
            raise known
        return read_statement(asked) if known is None else known


def _key(asked: Asked) -> object:
    names = frozenset[str]()
    with suppress(TaskError):  # a solution cannot be read, which is reported when it is judged
        names = names_read(asked.against, asked.solutions)
    return asked.against, asked.shapes, asked.values, asked.own, asked.any_values, names


def _files(against: str) -> Iterator[Path]:
    """Yield the files that a reference was read from: its own, its task's, and imported modules in its folder."""
    path = Path(against.partition(":")[0]).resolve()
    folder = path if path.is_dir() else path.parent
    yield path
    if path.is_dir() or path.suffix in (".yml", ".yaml"):
        yield from (each for each in folder.iterdir() if each.is_file())
    for module in [*sys.modules.values()]:
        if (file := getattr(module, "__file__", None)) and Path(file).is_relative_to(folder):
            yield Path(file)


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:  # the file is gone
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
