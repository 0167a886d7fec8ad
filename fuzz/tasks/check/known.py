"""Cases that a check runs before it searches: those that it is given, and those that it failed on before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fuzz.campaign.corpus.folder import Kept, kept_cases, load
from fuzz.core.base import __version__
from fuzz.core.base.case import CaseError
from fuzz.findings import casefile, document
from fuzz.findings.book import FindingBook
from fuzz.findings.casefile import Found, formula_of
from fuzz.tasks.check.plan import CheckPlan


def kept(cases: Iterable[str | Path], op: str) -> Iterator[Kept]:
    """The case files of `op` that a call names, one by one or by their folder."""
    for path in map(Path, cases):
        for each in kept_cases(path) if path.is_dir() else (load(path),):
            if each.case.op == op:
                yield each


def remembered(todo: CheckPlan, op: str) -> list[Kept]:
    """What the Hypothesis database has of this check. Values that it cannot read are none of its own."""
    found = []
    for value in sorted(todo.database.fetch(todo.key)) if todo.database is not None else ():
        try:
            case, how = casefile.from_json(document.parsed(value.decode()))
        except (UnicodeDecodeError, CaseError):
            continue
        if case.op == op:
            found.append(Kept(Path("of the Hypothesis database"), case, how))
    return found


def remember(todo: CheckPlan, book: FindingBook, earlier: Sequence[Kept]) -> None:
    """Keep the smallest case of every bucket; forget those that fail no longer, or that a smaller one stands for."""
    if todo.database is None:
        return
    failing = set()
    for bucket in book.buckets.values():
        how = Found(
            bucket.judgement.target, bucket.verdict, todo.seed, __version__, bucket.judgement.broken_law,
            formula=formula_of(bucket.case.op),
        )  # fmt: skip
        failing.add(_encoded(Kept(Path(), bucket.case, how)))
    for value in failing:
        todo.database.save(todo.key, value)
    for value in {_stored for each in earlier if (_stored := _encoded(each)) not in failing}:
        todo.database.delete(todo.key, value)


def _encoded(kept: Kept) -> bytes:
    return json.dumps(casefile.to_json(kept.case, kept.found), sort_keys=True).encode()
