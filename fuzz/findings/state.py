"""Folders of findings: the folder of a nightly state, its errors, and its lock, which only one job can hold; and how
command lines name a case file by the beginning of its digest or name."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz.core.base.errors import UsageError
from fuzz.core.base.text import printable


class StateError(UsageError):
    """A state cannot be used as it is. The message says on one line what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class BrokenStateError(StateError):
    """The content of a state is damaged, or kernelfuzz did not write it."""


class FencedError(StateError):
    """Another session has taken over the shards of a night."""

    def __init__(self, night: int) -> None:
        super().__init__(f"night {night} goes on elsewhere: what this process found since then is dropped")


DATABASE, FINDINGS, ISSUES, PAGE = "state.sqlite", "findings", "issues", "report.html"
"""The names of the database, the folders of findings and of their texts, and the page in a state folder."""


def make_state(state: Path) -> None:
    """Make the folder of a state if it is missing. Raises StateError."""
    try:
        (state / FINDINGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"--state {state}: cannot be written: {error.strerror}") from error


def latest_state(state: Path) -> Path:
    """Return the database of a state in which a night was run. Raises StateError if there was none."""
    path = state / DATABASE
    if not path.exists():
        if (state / PAGE).exists():
            raise StateError(f"{state}: its nights are in the store of --store: kernelfuzz report URL")
        raise StateError(f"{state}: no night was ever run there")
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises StateError, which names the process, if another job holds it. The operating system
    releases the lock when the process ends, so a killed job leaves no lock behind. Processes that are forked meanwhile
    do not hold it."""
    path = folder / "nightly.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise StateError(f"--state {folder}: {path.name} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise StateError(
                f"--state {folder}: in use by another nightly{f', process {holder}' if holder else ''}: "
                "wait for it, or give another folder"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


USUAL = Path("findings")
"""The default folder of a search's case files."""
OF_CHECKS = Path(".pytest_cache", "d", "kernelfuzz")
"""The folder for case files of `fuzz.check`, relative to the folder in which pytest runs."""
SHORTEST = 4
"""The least number of characters of a name on a command line."""
_DIGEST = 6
"""The number of digits of a digest that commands show as the name of a finding."""


def folders(findings: Path = USUAL, pack: Path | None = None) -> tuple[Path, ...]:
    """Return the folders in which findings are looked up: `findings`, or the folder of that name in it; the one of
    checks; and the one of a pack, to which `kernelfuzz judge` writes."""
    first = findings / USUAL if (findings / USUAL).is_dir() else findings
    return (first, OF_CHECKS, *([pack / USUAL] if pack is not None else []))


def files_in(places: tuple[Path, ...]) -> list[Path]:
    """Return the case files in the folders, each once."""
    return sorted({path.absolute(): path for folder in places for path in folder.glob("*.json")}.values())


def fitting(text: str, files: list[Path]) -> list[Path]:
    """Return the files whose name or digest begins with `text`. The name of a file ends with twelve digits of its
    digest."""
    return [path for path in files if path.stem.startswith(text) or path.stem.rpartition("-")[2].startswith(text)]


def short_words(path: Path, pack_option: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fewest words that name the case file on a command line which ends with `pack_option`: the beginning of
    its digest or name, and its folder if findings are not looked up there by default."""
    pack = Path(pack_option[1]) if pack_option[:1] == ("--pack",) else None
    usual = folders(pack=pack)
    is_usual = any(path.parent.absolute() == folder.absolute() for folder in usual)
    files = files_in(usual if is_usual else folders(path.parent, pack))
    name, _, digest = path.stem.rpartition("-")
    short = [digest[:_DIGEST], f"{name}-{digest[:_DIGEST]}", path.stem]
    is_judged = pack is not None and path.parent.absolute() == (pack / USUAL).absolute()
    for text in short[is_judged:]:  # a later judgement may fail on the same case, so its digest alone is not enough
        if len(text) >= SHORTEST and [each.absolute() for each in fitting(text, files)] == [path.absolute()]:
            return (text,) if is_usual else (text, "--findings", str(path.parent))
    return (str(path),)
