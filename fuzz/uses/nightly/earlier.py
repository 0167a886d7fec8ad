"""What is known before a night begins: the cases of earlier findings, and those of corpora."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from fuzz.base.case import CaseError
from fuzz.base.validity import UnknownOpError
from fuzz.laws.registry import Entry
from fuzz.uses.corpus.folder import CASE, SUITE, Kept, in_batches, json_files, kind_of, load
from fuzz.uses.corpus.suites import expand, load_suite


def corpora_of(pack: Path) -> tuple[Path, ...]:
    """The folders of kept cases that belong to a pack: `corpora` next to it or in it."""
    folders = (pack.resolve().parent / "corpora", pack.resolve() / "corpora")
    return tuple(folder for folder in folders if folder.is_dir())


def known_cases(folders: Sequence[Path], ops: Iterable[str]) -> tuple[list[Kept], dict[Path, str]]:
    """The cases of `ops` in these folders, the first folder's first, and what is wrong with each broken file."""
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


def published(
    folders: Sequence[Path], ops: Iterable[str], broken: Callable[[str], object], known: Collection[Path] = ()
) -> Iterator[list[Entry]]:
    """The cases of the suites in these folders, one at a time: there are many. A suite is left where it is broken,
    which `broken` is told; `known` are files that are broken as a whole."""
    wanted = set(ops)
    for path in (path for folder in folders for path in json_files(folder) if path not in known):
        try:
            for each in expand(load_suite(path)) if kind_of(path) == SUITE else ():
                if each.case.op in wanted:
                    yield [Entry(each.case)]
        except CaseError as error:
            broken(f"not replayed: {error}")


def until(groups: Iterable[list[Entry]], seconds: float) -> Iterator[list[Entry]]:
    """As batches for the runner, and no more of them after that time."""
    end = time.monotonic() + seconds
    for batch in in_batches(groups):
        if time.monotonic() >= end:
            return
        yield batch
