"""A corpus folder of readable case files. Each file has one case and is named by its digest, so that files of two
branches do not collide. This module reads and writes the files, puts their cases into batches, finds files that show
nothing new, and merges two folders."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.core.adapters.target import TargetId
from fuzz.core.base.case import Case, CaseError, Layout
from fuzz.core.base.draw import Frame
from fuzz.core.base.errors import UsageError
from fuzz.core.base.text import printable
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS, Entry, twin_of
from oracles.dtypes import ITEMSIZE
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.findings.casefile import FoundRecord

CASE, ACCURACY = "kernelfuzz case", "kernelfuzz accuracy"
"""The kinds of JSON files. A file has the name of its kind as a member of its top object."""
NAMED = 12
"""The number of leading digits of the digest in a file's name."""
BATCH_ENTRIES = 16
"""The number of entries in a batch: as many as a search submits together."""
BATCH_ELEMENTS = 1 << 17
"""The most elements in a batch: with long rows every worker would wait for the slowest."""
_NAMED_BY_DIGEST = re.compile(rf"(?:.*-)?([0-9a-f]{{{NAMED}}})")


class CorpusError(UsageError):
    """A corpus that cannot be found, read or written. The message says what to do."""


@dataclass(frozen=True)
class Kept:
    """One case file of a corpus."""

    path: Path
    case: Case
    found: FoundRecord | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    """The reasons why the case is kept: the documented bug, its source, what went wrong. The entry 'law' names a law to
    check on the case."""


def found() -> Path | None:
    """Return the folder that is used if none is named: `corpora/` of the checkout that this package runs from, or of
    the current folder. Return None if neither exists."""
    return next((folder for folder in _candidates() if folder.is_dir()), None)


def built_in() -> Path:
    """Return the folder that is used if none is named. Raises CorpusError if it does not exist."""
    folder = found()
    if folder is None:
        looked = " and ".join(map(str, _candidates()))
        raise CorpusError(f"no corpora found: name a folder with --corpora DIR (looked for {looked})")
    return folder


def is_of_checkout(corpora: Path | None) -> bool:
    """Whether the folder is the one of the checkout that this package runs from; its cases are of the built-in pack."""
    return corpora == _candidates()[0]


def _candidates() -> tuple[Path, ...]:
    return Path(__file__).resolve().parents[3] / "corpora", Path.cwd() / "corpora"


def file_name(case: Case) -> str:
    """Return the name DIGEST.json of a case's file. A file that a person added may be called NAME-DIGEST.json."""
    return f"{case.digest[:NAMED]}.json"


def kind_of(path: Path) -> str:
    """Return the kind of a file: case or accuracy. Raises CaseError for any other file."""
    record = _read(path)
    for kind in (CASE, ACCURACY):
        if kind in record:
            return kind
    raise CaseError(f"{path}: no case file: it has no field {CASE!r}")


def json_files(folder: Path) -> list[Path]:
    """Return every JSON file below `folder`, sorted."""
    if not folder.is_dir():
        raise CorpusError(f"{folder}: no such folder")
    return sorted(folder.rglob("*.json"), key=lambda path: path.relative_to(folder).as_posix())


def kept_cases(folder: Path, *, others: bool = False) -> Iterator[Kept]:
    """Yield the case files below `folder`. With `others`, cases of ops that no loaded pack has are skipped. Raises
    CaseError for a file that is broken or does not fit its op."""
    from fuzz.core.base.validity import UnknownOpError

    for path in json_files(folder):
        if kind_of(path) == CASE:
            with suppress(*([UnknownOpError] if others else [])):
                yield load(path)


def load(path: Path) -> Kept:
    """Read and check one case file. Raises CaseError, which names the file, for any mistake in it."""
    from fuzz.findings import casefile

    case, found = casefile.load(path)
    named = _NAMED_BY_DIGEST.fullmatch(path.stem)
    if named is not None and not case.digest.startswith(named[1]):
        raise CaseError(f"{path}: named by a digest that is not its own; call it {file_name(case)}")
    about = _read(path).get("about", {})
    if not isinstance(about, dict) or not all(isinstance(text, str) for text in about.values()):
        raise CaseError(f"{path}: about: must hold text only")
    about = {printable(name): printable(text) for name, text in about.items()}
    law = about.get("law", "rerun")
    if law not in LAWS:
        raise CaseError(f"{path}: about.law: unknown law {law!r}; known: {', '.join(LAWS)}")
    if "law" in about and not LAWS[law].applies(case):
        raise CaseError(f"{path}: about.law: {law} does not apply to this case")
    return Kept(path, case, found, about)


def keep(kept: Kept, folder: Path) -> Path | None:
    """Write a case below `folder`. Return its path, or None if the folder has the case already."""
    from fuzz.findings import casefile

    path = folder / file_name(kept.case)
    if path.exists():
        return None
    record = casefile.to_json(kept.case, kept.found)
    try:
        casefile.write(path, {**record, "about": dict(kept.about)} if kept.about else record)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def _read(path: Path) -> dict[str, Any]:
    from fuzz.findings import document

    record = document.read(path)
    return record if isinstance(record, dict) else {}


def entries_of(kept: Kept) -> list[Entry]:
    """Return the entries to run for a case file: the earlier calls that it lists, the case, and its twin if it is kept
    with a law. If they run in a process with other calls, those may hide the failure."""
    law = kept.found.law if kept.found is not None else None
    if law is None and "law" in kept.about:
        law = LawCheck(LAWS[kept.about["law"]], int(kept.case.digest[:16], 16))
    history = [Entry(call) for call in kept.found.history] if kept.found is not None else []
    return [*history, Entry(kept.case), *([twin_of(kept.case, law)] if law is not None else [])]


def in_batches(groups: Iterable[list[Entry]]) -> Iterator[list[Entry]]:
    """Yield batches of about BATCH_ENTRIES entries. A case and its twin stay together."""
    batch: list[Entry] = []
    elements = 0
    for group in groups:
        batch += group
        elements += sum(entry.case.elements for entry in group)
        if len(batch) >= BATCH_ENTRIES or elements >= BATCH_ELEMENTS:
            yield batch
            batch, elements = [], 0
    if batch:
        yield batch


_TAIL = 64
"""The widest block of common kernels, in elements: rows with the same remainder modulo this take the same path."""


@dataclass(frozen=True)
class Subsumed:
    """A file that may be removed, and the file `by`, which shows the same failure on a smaller case."""

    kept: Kept
    by: Kept


def subsumed(corpus: Iterable[Kept]) -> list[Subsumed]:
    """Return the files that show the same failure on the same kind of input as a smaller one; never documented
    cases."""
    best: dict[tuple[object, ...], Kept] = {}
    dropped = []
    for kept in sorted(corpus, key=lambda each: (each.case.elements, each.case.digest)):
        if kept.found is None or kept.about:
            continue
        first = best.setdefault(signature(kept), kept)
        if first is not kept:
            dropped.append(Subsumed(kept, first))
    return dropped


def signature(kept: Kept) -> tuple[object, ...]:
    """Return the features in which two files must agree for one of them to be enough."""
    case, found = kept.case, kept.found
    law = found.law.name if found and found.law else ""
    seen = (TargetId.parse(found.target).implementation, found.verdict, law) if found else ()
    return (
        case.op,
        seen,
        case.structured,
        case.origin.recipe,
        tuple((name, t.dtype, _layout_class(t.layout, t.dtype)) for name, t in sorted(case.tensors.items())),
        tuple(sorted((name, output.alias) for name, output in case.outputs.items())),
        _row_class(case),
    )


def merge(source: Path, into: Path, known: Iterable[Kept]) -> list[Path]:
    """Copy the cases below `source` that are not in `known` into the folder `into`. Return the paths written."""
    seen, written = {each.case.digest for each in known}, []
    for kept in kept_cases(source):
        if kept.case.digest not in seen:
            seen.add(kept.case.digest)
            written.append(keep(kept, into))
    return [path for path in written if path is not None]


def publish(own: Sequence[Kept], there: Sequence[Kept], part: Path) -> list[Path]:
    """Write findings into one part of a folder that several machines share, unless a case that is `there` shows the
    same and is no larger; remove from this part what a smaller case of any part shows. Return the paths written. No
    machine changes the part of another one, so that the disk needs no locks."""
    dropped = [each.kept for each in subsumed([*there, *own])]
    known = {each.case.digest for each in (*there, *dropped)}
    written = [keep(each, part) for each in own if each.case.digest not in known]
    for each in dropped:
        if each.path.parent == part:
            each.path.unlink(missing_ok=True)
    return [path for path in written if path is not None]


def _layout_class(layout: Layout, dtype: str) -> tuple[object, ...]:
    """Return the rank, the signs and order of the strides, and whether the tensor is dense and aligned."""
    sizes = [abs(stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    order = sizes == sorted(sizes, reverse=True)
    signs = tuple((stride > 0) - (stride < 0) for stride in layout.strides)
    return len(layout.shape), signs, order, layout.extent == layout.size, layout.alignment(ITEMSIZE[dtype]) == 0


def _row_class(case: Case) -> tuple[object, ...]:
    frame = Frame(case)
    zeros = tuple(each.name for each in OPS[case.op].parameters if case.params.get(each.name) == 0 != each.neutral)
    return frame.n % _TAIL, frame.n > _TAIL, math.prod(frame.grid) > frame.n, zeros
