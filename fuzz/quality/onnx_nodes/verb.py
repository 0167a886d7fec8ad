"""`python3 -m fuzz.quality onnx`: the stored outputs of ONNX's own tests of operators, judged."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import UsageError
from fuzz.quality.onnx_nodes.cases import EXACT, NodeAnswer, node_cases
from fuzz.report import console
from fuzz.report.console import PlainTable, print_tables
from fuzz.report.records import write_record
from fuzz.tasks.comparison import FORMULA, REPLAY, RIGHT, WRONG

_SHOWN = 8
"""The number of operators that are named of each reason, and of tolerances at either end."""


@dataclass(frozen=True)
class OnnxOptions:
    """The options of `python3 -m fuzz.quality onnx`."""

    match: Annotated[str, typer.Option("--match", help="Only tests or operators of this name (a glob).")] = "*"
    each: Annotated[bool, typer.Option("--each", help="A row for each test.")] = False
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


def onnx(options: OnnxOptions) -> Exit:
    """Judge the stored outputs of ONNX's tests of operators; exit code 1 for a deviation that is not known.

    For example: python3 -m fuzz.quality onnx --match 'test_softmax_*'
    """
    every = node_cases().values()
    cases = [each for each in every if any(fnmatchcase(name, options.match) for name in (each.name, each.op))]
    if not cases:
        raise UsageError(f"--match {options.match}: no such test or operator")
    judging = import_module("fuzz.quality.onnx_nodes.judging")  # which needs torch
    asked = judging.all_answers(cases, options.jobs or len(os.sched_getaffinity(0)))
    found = [*track(asked, "Judging", len(cases), console=console.progress())]
    each = [rows(found)] if options.each else []
    tables = shares(found), deviations(found), reasons(found), tolerances(found)
    print_tables(*each, *tables, markdown=options.markdown)
    write_record(options.json, {"answers": [asdict(each) for each in found]})
    return Exit.FINDINGS if new_deviations(found) else Exit.OK


def known() -> Mapping[str, str]:
    """Return the tests whose wrong outputs were read by hand, with what is wrong about them."""
    lines = Path(__file__).with_name("known.txt").read_text("utf-8").splitlines()
    parts = [line.partition(": ") for line in lines if line[:1] != "#"]
    return {name: why for names, _, why in parts for name in names.split()}


def new_deviations(found: Sequence[NodeAnswer]) -> Sequence[NodeAnswer]:
    """Return the answers about wrong outputs that nobody has read yet."""
    return [each for each in found if each.result == WRONG and each.name not in known()]


def rows(found: Sequence[NodeAnswer]) -> PlainTable:
    """Return a row for each test."""
    each = [
        (one.name, one.op, one.dtypes, one.by or "-", one.result, one.said or one.unread, *_effect(one))
        for one in found
    ]
    return PlainTable(("test", "operator", "dtypes", "by", "result", "", "wider by", "too tight for"), each)


def shares(found: Sequence[NodeAnswer]) -> PlainTable:
    """Return the counts of tests, by the dtype of what they return."""
    parts = defaultdict[str, list[NodeAnswer]](list)
    for each in found:
        for kind in ("all", "floats" if each.floats else "others"):
            parts[kind].append(each)
    rows = list[tuple[str, ...]]()
    for kind, some in parts.items():
        ways = [sum(each.by == word for each in some) for word in (FORMULA, REPLAY, EXACT, "")]
        results = [sum(each.result == word for each in some) for word in (RIGHT, WRONG)]
        counts = len(some), *ways, *results, sum(each.others for each in some)
        rows.append((kind, *(f"{each:,}" for each in counts)))
    head = "outputs", "tests", "read", "replayed", "exact", "not judged", "right", "wrong", "further tests of the same"
    return PlainTable(head, rows)


def deviations(found: Sequence[NodeAnswer]) -> PlainTable:
    """Return a row for each test with a wrong output."""
    wrong = [each for each in found if each.result == WRONG]
    return PlainTable(
        ("deviation", "dtypes", "by", "what", "reason"),
        [(each.name, each.dtypes, each.by, each.said, known().get(each.name, "NEW")) for each in wrong],
    )


def reasons(found: Sequence[NodeAnswer]) -> PlainTable:
    """Return the reasons why outputs are not judged, or are replayed only, with the operators."""
    why = defaultdict[tuple[str, str], list[str]](list)
    for each in found:
        if each.by in ("", REPLAY):
            words = (each.unread if each.by else each.said).replace(f"reference {each.name} cannot be read: ", "")
            why["replayed" if each.by else "not judged", words.partition(" (")[0][:70]].append(each.op)
    some = [(*key, f"{len(own)}", ", ".join([*dict.fromkeys(own)][:_SHOWN])) for key, own in why.items()]
    return PlainTable(("", "why", "tests", "operators such as"), sorted(some, key=lambda row: (row[0], -int(row[2]))))


def tolerances(found: Sequence[NodeAnswer]) -> PlainTable:
    """Return the tests whose tolerance is the widest, and those for which it is too tight, by operator and dtypes."""
    best = dict[tuple[str, str], NodeAnswer]()
    for each in sorted((each for each in found if each.wider is not None), key=lambda each: each.wider or 0.0):
        best[each.op, each.dtypes] = each
    ordered = [*best.values()][::-1]
    shown = [*ordered[:_SHOWN], *(each for each in ordered[_SHOWN:] if each.tight)]
    return PlainTable(
        ("tolerance of", "dtypes", "wider by", "too tight for"),
        [(each.name, each.dtypes, *_effect(each)) for each in shown],
    )


def _effect(each: NodeAnswer) -> tuple[str, str]:
    return ("-", "-") if each.wider is None else (f"{each.wider:.3g}", f"{each.tight:.0%}")
