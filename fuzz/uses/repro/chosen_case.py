"""The case that is asked for: a file, a finding's id, or a place in a search."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fuzz.adapters.pack import Pack
from fuzz.base.case import Case
from fuzz.base.errors import UsageError
from fuzz.base.op import OPS
from fuzz.findings import casefile
from fuzz.findings.casefile import Found
from fuzz.generate.search import StopSearch, search
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import declared, with_twins

_PLACE = re.compile(r"(\d+):(\w+):(\d+)")
_SHORTEST = 4
"""characters of an id."""
_LISTED = 5


@dataclass(frozen=True)
class ChosenCase:
    """A case, and what is known of how it fails."""

    case: Case
    found: Found | None
    law: LawCheck | None = None
    """by which the case is followed by its twin."""
    history: tuple[Case, ...] = ()
    """calls before it."""


def chosen_case(text: str, findings: Path, pack: Pack) -> ChosenCase:
    """The case that `text` names. Raises UsageError, or CaseError for a broken file."""
    place = _PLACE.fullmatch(text)
    if place is not None and not Path(text).exists():
        return _searched(int(place[1]), place[2], int(place[3]), pack)
    path = Path(text) if Path(text).is_file() or Path(text).suffix == ".json" else _file_of(text, findings)
    case, found = casefile.load(path)
    return ChosenCase(case, found, found.law if found else None, found.history if found else ())


def _file_of(text: str, findings: Path) -> Path:
    """The file whose name, or whose digest, begins so."""
    folder = findings / "findings" if (findings / "findings").is_dir() else findings
    files = sorted(folder.glob("*.json"))
    # With a digest of twelve digits at the end of its name.
    fitting = [path for path in files if path.stem.startswith(text) or path.stem.rpartition("-")[2].startswith(text)]
    if len(text) >= _SHORTEST and len(fitting) == 1:
        return fitting[0]
    if len(text) < _SHORTEST and fitting:
        raise UsageError(f"{text!r}: write at least {_SHORTEST} characters of a finding's name or digest")
    shown = fitting or files
    names = ", ".join(path.stem for path in shown[:_LISTED]) + (" ..." if len(shown) > _LISTED else "")
    there = f"{'it may be' if fitting else 'there are'}: {names}" if shown else "there is none; see --findings"
    what = "more than one finding" if fitting else "no finding"
    raise UsageError(f"{text!r}: no case file, and {what} of that name in {folder}; {there}")


def _searched(run_seed: int, op: str, number: int, pack: Pack) -> ChosenCase:
    """The case at that place of a search, from 1, as `kernelfuzz run` counts them. Nothing is run to get there."""
    if op not in OPS:
        raise UsageError(f"{run_seed}:{op}:{number}: unknown op {op!r}; known: {', '.join(OPS)}")
    if number < 1:
        raise UsageError(f"{run_seed}:{op}:{number}: the first case is number 1")
    found: list[Case] = []

    def consume(cases: list[Case]) -> None:
        found.extend(case for case in cases if case.origin.number == number)
        if found:
            raise StopSearch

    search(op, run_seed, consume, pack.kernels)
    twins = with_twins(found, declared(kernel for kernel in pack.kernels if kernel.op == op))[1:]
    return ChosenCase(found[0], None, twins[0].check if twins else None)
