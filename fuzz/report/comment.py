"""A comment on a pull request: what the change made worse, what it made better, and the commands that show it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fuzz.report.outline import Failure, Outline
from fuzz.report.totals import not_judged, remarks

MARK = "<!-- kernelfuzz -->"
"""The comment begins so: whoever writes it again finds it by that, and edits it."""
COMMENT_CHARACTERS = 65_536
"""GitHub takes no longer comment."""
_MOST = 20
"""The most failures that are shown; the step summary has them all."""


def comment(outline: Outline) -> str:
    """The comment, cut to what GitHub takes."""
    found = [MARK, *_lines(outline)]
    while len("\n".join(found)) > COMMENT_CHARACTERS - 1:
        found.pop()
    return "\n".join(found) + "\n"


def _lines(outline: Outline) -> Iterator[str]:
    yield f"### kernelfuzz {outline.verb}: {outline.outcome.ending}"
    yield f"\n{outline.judged:,} judged runs of {outline.cases:,} cases, seed {outline.seed}."
    worse, better = outline.failing, outline.better
    count = len(worse) + len(outline.outcome.complaints)
    nothing = "nothing" if outline.outcome.passed else "not known, as not everything was judged"
    yield f"\n**Worse: {count or nothing}**" + ("" if worse else ".")
    for line in (*remarks(outline.outcome), *not_judged(outline.outcome)):
        yield f"- {_code(line)}"
    for failure in worse[:_MOST]:
        yield from _failure(failure)
    if len(worse) > _MOST:
        yield f"\nand {len(worse) - _MOST} more: see the summary of the step."
    yield f"\n**Better: {len(better) or 'nothing'}**" + ("" if better else ".")
    for line in better:
        yield f"- {_code(line)}"
    known = len(outline.failures) - len(worse)
    if known:
        yield f"\n{known} more failed before, too."


def _failure(failure: Failure) -> Iterator[str]:
    """One failure in the lines that a person reads first, the command that shows it again among them."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", failure.brief))])
    yield f"\n{fence}text\n{failure.brief}\n{fence}"


def _code(text: str) -> str:
    """Text as data: no mark-up of it is read."""
    fence = "`" * (1 + max([0, *(len(run) for run in re.findall("`+", text))]))
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"
