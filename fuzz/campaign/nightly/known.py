"""What is known before a night searches: kept cases of corpora, and findings that machines give each other through a
folder on a shared disk. There each machine adds and prunes files in its own part only, so that nothing needs a lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.campaign.corpus.folder import (
    CASE,
    CorpusError,
    Kept,
    in_batches,
    json_files,
    kind_of,
    load,
    publish,
    subsumed,
)
from fuzz.core.base.case import CaseError
from fuzz.core.base.validity import UnknownOpError
from fuzz.core.laws.registry import Entry


def corpora_of(pack: Path) -> tuple[Path, ...]:
    """Return the folders of kept cases of a pack: `corpora` next to it and in it."""
    folders = (pack.resolve().parent / "corpora", pack.resolve() / "corpora")
    return tuple(folder for folder in folders if folder.is_dir())


def known_cases(folders: Sequence[Path], ops: Iterable[str]) -> tuple[list[Kept], dict[Path, str]]:
    """Return the cases of these ops in the folders, in the order of the folders; and for each broken file, by its path,
    what is wrong with it."""
    found: list[Kept] = []
    broken = {}
    wanted = set(ops)
    for path in (path for folder in folders for path in json_files(folder)):
        try:
            kept = load(path) if kind_of(path) == CASE else None
        except UnknownOpError:
            continue
        except CaseError as error:
            broken[path] = str(error)
            continue
        if kept is not None and kept.case.op in wanted:
            found.append(kept)
    return found, broken


def until(groups: Iterable[list[Entry]], seconds: float) -> Iterator[list[Entry]]:
    """Yield batches for the runner until `seconds` have passed."""
    end = time.monotonic() + seconds
    for batch in in_batches(groups):
        if time.monotonic() >= end:
            return
        yield batch


@dataclass(frozen=True)
class SharedFolder:
    """A folder through which machines without a common store give each other their findings."""

    folder: Path
    place: str
    """The name of this machine's part."""
    say: Callable[[str], None]
    """A function that prints a line for the user."""

    def of_others(self, known: Sequence[Kept], ops: Collection[str]) -> list[Kept]:
        """Return the findings of other machines that no smaller known case shows, as far as they can be read."""
        there = self._there(ops)
        gone = {id(each.kept) for each in subsumed([*known, *there])}
        return [each for each in there if id(each) not in gone and each.path.parent != self._part]

    def publish(self, findings: Path, ops: Collection[str]) -> None:
        """Put the findings into this machine's part, and prune it."""
        try:
            own, _ = known_cases([findings], ops)
            publish(own, self._there(ops), self._part)
        except (OSError, CorpusError) as error:
            self.say(f"not shared: {error}")

    @property
    def _part(self) -> Path:
        return self.folder / self.place

    def _there(self, ops: Collection[str]) -> list[Kept]:
        return known_cases([self.folder], ops)[0] if self.folder.is_dir() else []
