"""`python3 -m fuzz.quality opinfo`: every operation of torch's own list, judged on torch's own samples."""

from __future__ import annotations

import os
import re
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
from fuzz.quality.opinfo.judging import CPU, FORWARD, GRADIENT, EntryAnswer, all_answers, entries
from fuzz.report import console
from fuzz.report.console import PlainTable, print_tables
from fuzz.report.records import write_record
from fuzz.tasks.comparison import FORMULA, REPLAY, RIGHT, WRONG
from oracles.dtypes import COMPUTED

_SHOWN = 8
"""The number of entries that are named of each reason."""


@dataclass(frozen=True)
class OpinfoOptions:
    """The options of `python3 -m fuzz.quality opinfo`."""

    entry: Annotated[str, typer.Option("--entry", help="Only these entries (a glob).")] = "*"
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help=f"{', '.join(COMPUTED)}. Repeatable.")] = ()
    device: Annotated[str, typer.Option("--device", help="Where torch calculates: cpu or cuda.")] = CPU
    samples: Annotated[int, typer.Option("--samples", min=1, help="Samples of each entry and dtype.")] = 2
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


def opinfo(options: OpinfoOptions) -> Exit:
    """Judge torch's results for the samples of its own tests; exit code 1 for a deviation that is not known.

    For example: python3 -m fuzz.quality opinfo --entry 'nn_functional_*' --dtype bf16
    """
    if unknown := [each for each in options.dtype if each not in COMPUTED]:
        raise UsageError(f"--dtype {unknown[0]}: known: {', '.join(COMPUTED)}")
    if options.device not in (CPU, "cuda"):
        raise UsageError(f"--device {options.device}: known: {CPU}, cuda")
    if options.device != CPU and not import_module("torch").cuda.is_available():
        raise UsageError(f"--device {options.device}: torch finds no GPU here")
    names = [name for name in entries() if fnmatchcase(name, options.entry)]
    if not names:
        raise UsageError(f"--entry {options.entry}: no such entry")
    jobs, dtypes = options.jobs or len(os.sched_getaffinity(0)), options.dtype or COMPUTED
    asked = all_answers(names, dtypes, options.samples, jobs, options.device)
    found = [each for _, some in track(asked, "Judging", len(names), console=console.progress()) for each in some]
    print_tables(shares(found), deviations(found), reasons(found), tolerances(found), markdown=options.markdown)
    facts = {"device": options.device, "samples": options.samples}
    write_record(options.json, {**facts, "answers": [asdict(each) for each in found]})
    return Exit.FINDINGS if new_deviations(found) else Exit.OK


def known() -> Mapping[str, str]:
    """Return the deviations that were read by hand, such as "addbmm forward:bf16", with what torch does there that it
    does not say."""
    lines = Path(__file__).with_name("known.txt").read_text("utf-8").splitlines()
    parts = [line.partition(": ") for line in lines if line[:1] != "#"]
    return {f"{name} {place}": why for head, _, why in parts for name, *some in [head.split()] for place in some}


def new_deviations(found: Sequence[EntryAnswer]) -> Sequence[EntryAnswer]:
    """Return the answers about wrong results that nobody has read yet."""
    return [each for each in found if each.result == WRONG and f"{each.entry} {each.place}" not in known()]


def shares(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return the counts of entries with outputs of floats, by way and dtype."""

    rows = list[tuple[str, ...]]()
    for way, dtype in ((way, dtype) for way in (FORWARD, GRADIENT) for dtype in ("", *COMPUTED)):
        own = [each for each in found if each.way == way and each.floats and dtype in ("", each.dtype)]
        read, replayed, right, wrong = (
            {each.entry for each in own if word in (each.by, each.result)} for word in (FORMULA, REPLAY, RIGHT, WRONG)
        )
        every = {each.entry for each in own}
        counts = every, read, replayed - read, every - read - replayed, right - wrong, wrong
        rows.append((way, dtype or "any", *(f"{len(each):,}" for each in counts)))
    return PlainTable(("", "dtype", "entries", "read", "replayed", "neither", "right", "wrong"), rows)


def deviations(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return one row for each entry with wrong results."""
    wrong, reason = defaultdict[str, list[EntryAnswer]](list), known()
    for each in (each for each in found if each.result == WRONG):
        wrong[each.entry].append(each)
    rows = list[tuple[str, ...]]()
    for name, some in wrong.items():
        places = dict.fromkeys(each.place for each in some)
        why = dict.fromkeys(reason.get(f"{name} {place}", "NEW") for place in places)
        rows.append((name, " ".join(places), some[0].by, some[0].said, "; ".join(why)))
    return PlainTable(("deviation", "where", "by", "for example", "reason"), rows)


def reasons(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return the reasons why no formula is read, and why nothing is judged, with their entries."""
    forward = [each for each in found if each.way == FORWARD and (each.floats or not each.dtype)]
    by = {word: {each.entry for each in forward if each.by == word} for word in (FORMULA, REPLAY)}
    why = defaultdict[tuple[str, str], dict[str, None]](dict)
    for each in forward:
        if each.entry not in by[FORMULA]:
            judged = each.entry in by[REPLAY]
            words = each.unread if judged else each.said
            why["replayed" if judged else "not judged", re.sub(_OWN, "", words)[:80]][each.entry] = None
    rows = [(what, word, f"{len(some)}", ", ".join([*some][:_SHOWN])) for (what, word), some in why.items() if word]
    return PlainTable(("", "why", "entries", "such as"), sorted(rows, key=lambda row: (row[0], -int(row[2]))))


_OWN = r"reference \w+ cannot be read: |\(judging\.py line \d+\) ?|\d+"
"""The parts of a reason that differ between entries."""


def tolerances(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return one row for each tolerance of torch's tests, the widest first."""
    rows = {(each.entry, each.dtype, own.test): own for each in found for own in each.overrides}
    ordered = sorted(rows.items(), key=lambda item: -item[1].wider)
    shown = [(*key, f"{own.atol:g}", f"{own.rtol:g}", f"{own.wider:.3g}", f"{own.tight:.0%}") for key, own in ordered]
    return PlainTable(("tolerance of", "dtype", "test", "atol", "rtol", "wider by", "too tight for"), shown)
