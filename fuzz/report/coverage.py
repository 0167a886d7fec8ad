"""Coverage: the parts of the input space that a search has visited, and the gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rich.console import Console

from fuzz.core.base.feature import Feature, answer_words, label_words
from fuzz.core.generate.conditions import Pair
from fuzz.core.generate.coverage import Ledger, said
from fuzz.core.generate.pairing import PairCoverage
from fuzz.findings.tally import Tally
from fuzz.report.console import PlainTable, print_lines, print_table
from fuzz.report.totals import and_more

_SHORT = 3
"""The most corners of one kind without a target that are named; if there are more, only their number is printed, so
that an op takes about a line."""
_FEW_PAIRS = 4
"""The number of pairs of conditions that never held together which are named, of thousands; records name all."""
_NAMED = 12
"""The number of gaps of one kind that are named, as many as fit into a table; records name all."""


def print_coverage(console: Console, tally: Tally, pairs: Mapping[str, PairCoverage]) -> None:
    """Print a table for each op, with the number of visited values of each kind, the visits of the rarest one, and the
    names of gaps; then the pairs of conditions, by op."""
    for op, ledger in tally.coverage.items():
        console.print(f"\ncoverage of {op}:")
        rows = [(said(op, kind), *row) for kind, row in _coverage_rows(ledger)]
        print_table(PlainTable(("kind", "visited", "of", "rarest", "gaps"), rows), markdown=False)
    gaps = sum(ledger.size for ledger in tally.coverage.values())
    able = {target for of_op in tally.corners.values() for target in of_op.space[Feature("target")]}
    unable = [target for target in tally.targets if target not in able]
    if unable:
        print_lines(console, [f"cannot run here, and visited nothing: {and_more(unable)}"])
    beyond = [(op, kind, values) for op, of_op in tally.corners.items() for kind, values in of_op.beyond.items()]
    if beyond:
        corners = sum(len(values) for _, _, values in beyond)
        words = ((f"{op} {said(op, kind)}", answer_words(kind, values)) for op, kind, values in beyond)
        few = (f"{of} {', '.join(all_)}" if len(all_) <= _SHORT else f"{of} ({len(all_)})" for of, all_ in words)
        print_lines(console, [f"{corners} corners that no selected target accepts: {', '.join(few)}"])
    console.print("no coverage gap" if gaps == 0 else f"{gaps} coverage gaps: run longer, or see the table")
    for op, of_op in pairs.items():
        if of_op.allowed:
            console.print(f"\npairs of conditions of {op}:")
            rows = [
                (about, f"{some:,}", f"{every:,}", _percent(some / every))
                for about, (some, every) in of_op.table.items()
            ]
            print_table(PlainTable(("about", "held together", "of", "share"), rows), markdown=False)
            print_lines(console, [pairs_line(op, of_op)])


def pairs_line(op: str, pairs: PairCoverage) -> str:
    """Return a line about how many pairs of conditions held together, with a few of those that never did."""
    some = f"{pairs.allowed - len(pairs.never):,} of {pairs.allowed:,} pairs"
    line = f"{some} of conditions of {op} held together ({_percent(pairs.share)})"
    if not pairs.never:
        return line
    named = "; ".join(pair_words(op, pair) for pair in pairs.never[:_FEW_PAIRS])
    rest = len(pairs.never) - _FEW_PAIRS
    return f"{line}. Coverage gaps: {named}" + (f"; and {rest:,} more" if rest > 0 else "")


def _percent(share: float) -> str:
    """Return a share in percent, rounded down, so that 100% is all of it."""
    return f"{math.floor(share * 1000) / 10:g}%"


def pairs_words(pairs: Mapping[str, PairCoverage]) -> str:
    """Return words about how many pairs of conditions held together, over all ops."""
    allowed, never = (sum(each.allowed for each in pairs.values()), sum(len(each.never) for each in pairs.values()))
    return f"{allowed - never:,} of {allowed:,} pairs of conditions held together"


def pair_words(op: str, pair: Pair) -> str:
    """Return a pair in words: 'n 1024 to 4095' with 'rows 17 to 64'."""
    return " with ".join(f"'{said(op, each[0])} {label_words(each)[1]}'" for each in pair)


def _coverage_rows(ledger: Ledger) -> Iterator[tuple[Feature, tuple[str, ...]]]:
    gaps = ledger.gaps()
    for kind, values in ledger.space.items():
        missing = gaps.get(kind, [])
        rarest = min(ledger.counts[kind][value] for value in values)
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        named = ", ".join(answer_words(kind, missing[:_NAMED])) + more
        yield kind, (str(len(values) - len(missing)), str(len(values)), str(rarest), named)
