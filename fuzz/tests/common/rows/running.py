"""Each kernel of the table is checked with a seed, and what was found is told in a table."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from statistics import median
from typing import Any

from fuzz.tests.common.rows.table import TRIED, Tried

ROWS = (
    "selection", "places", "integers", "random", "complex", "geometry", "state", "solves", "conversions", "extents",
)  # fmt: skip


@dataclass(frozen=True)
class RowResult:
    """What a check with one seed said."""

    name: str
    seed: int
    outcome: str
    """`failed`, `passed`, or what else the check or kernel raised."""
    cases: int
    """Judged runs up to the first failure, or of all; 0 where the check tells no number."""
    seconds: float
    """Processor time."""
    text: str


def loaded(rows: Sequence[str] = ROWS) -> list[Tried]:
    """Return the entries of these rows."""
    for row in rows:
        import_module(f"fuzz.tests.common.rows.{row}")
    return [each for each in TRIED if each.row in rows]


def tried(entry: Tried, seed: int) -> RowResult:
    """Check a kernel with a seed."""
    import fuzz
    from fuzz.tasks.check import check

    noted: list[Any] = []
    made = check.CheckResults

    def noting(*arguments: Any) -> Any:
        noted.append(results := made(*arguments))
        return results

    check.CheckResults = noting  # type: ignore[misc, assignment]
    began, said = time.process_time(), StringIO()
    outcome, text = "passed", ""
    try:
        with redirect_stderr(said):
            passed = entry.check(entry.kernel, seed)
        text = said.getvalue() or str(passed)
    except fuzz.CheckFailed as error:
        outcome, text = "failed", str(error)
        if "NOTHING" in text.partition("\n")[0]:
            outcome = text.partition("\n")[0]
    except Exception as error:
        outcome, text = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}", str(error)
    finally:
        check.CheckResults = made  # type: ignore[misc]
    tallies = [each for results in noted for each in results.session.tally.targets.values()]
    cases = sum(each.first or each.judged for each in tallies)
    return RowResult(entry.name, seed, outcome, cases, time.process_time() - began, text)


def by_name(name: str, seed: int) -> RowResult:
    """Check the kernel of this name with a seed, in one thread. What failed with another seed is not tried first."""
    import torch
    from hypothesis import settings

    torch.set_num_threads(1)
    settings.register_profile("rows", database=None)
    settings.load_profile("rows")
    [entry] = [each for each in loaded([name.partition("/")[0]]) if each.name == name]
    return tried(entry, seed)


def _cause(text: str) -> str:
    """Return the first lines of each failure in a report, in one line, up to what comes next."""
    heads = [re.split(r"\n\n|\n  next:", each)[0] for each in re.split(r"\n(?=FAIL  )", text.strip())]
    return " || ".join(" ".join(each.split()) for each in heads)


def lines_of(entries: Sequence[Tried], results: Sequence[RowResult]) -> Iterator[str]:
    """Yield the table's lines: of each kernel in how many seeds it failed, and what the first failure said."""
    of = defaultdict[str, list[RowResult]](list)
    for each in results:
        of[each.name].append(each)
    for entry in entries:
        own = sorted(of[entry.name], key=lambda each: each.seed)
        if not own:
            continue
        failed = [each for each in own if each.outcome == "failed"]
        other = sorted({each.outcome for each in own} - {"failed", "passed"})
        seeds = f"{len(failed)} of {len(own)}" + ("" if entry.drawn else " (no seeds)")
        cases = [each.cases for each in (failed if entry.bug else own)]
        good = len(failed) == (len(own) if entry.bug else 0) and not other
        causes = list(dict.fromkeys(_cause(each.text) for each in failed))
        yield (
            f"{'' if good else '!!'} {'wrong' if entry.bug else 'right'} {entry.name}: "
            f"{'found' if entry.bug else 'accused'} in {seeds}, median {median(cases) if cases else 0:g} cases, "
            f"{sum(each.seconds for each in own):.0f} s"
        )
        if entry.bug:
            yield f"     bug: {entry.bug}"
        yield from (f"     told: {each[:400]}" for each in causes)
        yield from (f"     OTHER: {each}" for each in other)
