"""`python3 -m fuzz.quality shipped`: functions of shipped libraries, judged by what their documentation says."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Annotated

import typer
from rich.progress import track

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import UsageError
from fuzz.core.transport.python.attest import installed_version
from fuzz.quality.shipped.rows import ABSENT, ShippedAnswer, shipped_ops
from fuzz.report import console
from fuzz.report.console import PlainTable, print_tables
from fuzz.report.records import write_record
from fuzz.tasks.comparison import OPEN, RIGHT, WRONG


@dataclass(frozen=True)
class ShippedOptions:
    """The options of `python3 -m fuzz.quality shipped`."""

    match: Annotated[str, typer.Option("--match", help="Only rows or libraries of this name (a glob).")] = "*"
    cases: Annotated[int, typer.Option("--cases", min=1, help="Cases of each row.")] = 100
    seed: Annotated[int, typer.Option("--seed", help="Draws other cases.")] = 1
    each: Annotated[bool, typer.Option("--each", help="A row for each function that is right, too.")] = False
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


def shipped(options: ShippedOptions) -> Exit:
    """Judge functions of the shipped libraries that are installed; exit code 1 for a deviation that is not known.

    For example: python3 -m fuzz.quality shipped --match 'scipy ndimage.*'
    """
    keys = [
        key for key, op in shipped_ops().items()
        if any(fnmatchcase(name, options.match) for name in (key, op.library, op.name))
    ]  # fmt: skip
    if not keys:
        raise UsageError(f"--match {options.match}: no such row or library")
    judging = import_module("fuzz.quality.shipped.judging")  # which needs torch
    asked = judging.all_answers(keys, options.jobs or len(os.sched_getaffinity(0)), options.cases, options.seed)
    found = [*track(asked, "Judging", len(keys), console=console.progress())]
    each = [rows(found)] if options.each else []
    print_tables(*each, shares(found), deviations(found), reasons(found), markdown=options.markdown)
    write_record(options.json, {"cases": options.cases, "answers": [asdict(each) for each in found]})
    return Exit.FINDINGS if new_deviations(found) else Exit.OK


def new_deviations(found: Sequence[ShippedAnswer]) -> Sequence[ShippedAnswer]:
    """Return the answers about wrong results that nobody has read yet."""
    return [each for each in found if each.result == WRONG and not shipped_ops()[each.key].known]


def shares(found: Sequence[ShippedAnswer]) -> PlainTable:
    """Return the counts of each library's functions, and of all."""
    by = defaultdict[str, list[ShippedAnswer]](list)
    for each in found:
        by[shipped_ops()[each.key].library].append(each)
    lines = list[tuple[str, ...]]()
    for library, some in [*sorted(by.items()), ("all", [*found])]:
        counts = (sum(each.result == word for each in some) for word in (RIGHT, WRONG, OPEN, ABSENT))
        lines.append((library, installed_version(library) or "", f"{len(some)}", *map(str, counts)))
    return PlainTable(("library", "version", "functions", RIGHT, WRONG, OPEN, ABSENT), lines)


def deviations(found: Sequence[ShippedAnswer]) -> PlainTable:
    """Return a row for each function with a wrong result."""
    wrong = sorted((each for each in found if each.result == WRONG), key=lambda each: each.key)
    lines = [(each.key, each.said, shipped_ops()[each.key].known or "NEW") for each in wrong]
    return PlainTable(("deviation", "for example", "reason"), lines)


def reasons(found: Sequence[ShippedAnswer]) -> PlainTable:
    """Return the functions of which nothing is judged, and the libraries that are not here, and why."""
    why = {each.key: each.said for each in found if each.result == OPEN}
    why |= {shipped_ops()[each.key].library: each.said for each in found if each.result == ABSENT}
    return PlainTable((OPEN, "why"), [(name, " ".join(said.split())) for name, said in sorted(why.items())])


def rows(found: Sequence[ShippedAnswer]) -> PlainTable:
    """Return a row for each function."""
    ops = shipped_ops()
    lines = [(each.key, ops[each.key].call, ops[each.key].means, each.by, each.result) for each in found]
    return PlainTable(("function", "call", "what it means", "by", "result"), lines)
