"""GitHub: annotations as workflow commands, the Markdown summary of a step, and a comment for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from fuzz.core.base.text import counted
from fuzz.report.console import PlainTable, markdown_table
from fuzz.report.outline import Failure, Outline
from fuzz.report.totals import not_judged, remarks

MOST_ANNOTATIONS = 10
"""The most annotations of one kind that GitHub shows for a step."""
SUMMARY_BYTES = 1 << 20
"""The most bytes of a step's summary. GitHub refuses a longer one as a whole."""


def commands(outline: Outline) -> list[str]:
    """Return one `::error` for each unknown failure, as many as GitHub shows; the summary has all."""
    lines = [_annotation(failure) for failure in outline.failing]
    lines += [f"::error title=kernelfuzz {outline.verb}::{escaped(text)}" for text in remarks(outline.outcome)]
    if not lines and not outline.outcome.passed:
        lines = [f"::error title=kernelfuzz {outline.verb}::{escaped(outline.outcome.ending)}"]
    idle = not_judged(outline.outcome)[:MOST_ANNOTATIONS]
    warned = [f"::warning title=kernelfuzz {outline.verb}::{escaped(text)}" for text in idle]
    if len(lines) <= MOST_ANNOTATIONS:
        return [*lines, *warned]
    rest = len(lines) - MOST_ANNOTATIONS + 1
    more = f"::error title=kernelfuzz {outline.verb}::and {rest} more: see the summary of this step"
    return [*lines[: MOST_ANNOTATIONS - 1], more, *warned]


def summary(outline: Outline) -> str:
    """Return the step summary, cut to the length that GitHub accepts."""
    fence = _fence(4, *(failure.brief + failure.text for failure in outline.failures))
    whole = "\n".join(_summary_lines(outline, fence)) + "\n"
    if len(whole.encode(errors="replace")) <= SUMMARY_BYTES:
        return whole
    cut = "\n\n(cut: the rest does not fit into a step summary)\n"
    kept = whole.encode(errors="replace")[: SUMMARY_BYTES - len(cut) - len(fence) - 2].decode(errors="ignore")
    return kept + ("\n" + fence if kept.count(fence) % 2 else "") + cut


def _fence(least: int, *texts: str) -> str:
    """Return a fence longer than any in the texts, which may quote the message of a kernel's exception."""
    return "`" * max([least, *(len(run) + 1 for text in texts for run in re.findall("`+", text))])


def _summary_lines(outline: Outline, fence: str) -> Iterator[str]:
    yield f"## kernelfuzz {outline.verb}: {outline.outcome.ending}"
    yield ""
    yield f"{counted(outline.judged, 'judged run')} of {counted(outline.cases, 'case')}, seed {outline.seed}"
    yield ""
    for remark in remarks(outline.outcome):
        yield f"- **{_plain(remark)}**"
    for note in (*not_judged(outline.outcome), *outline.notes):
        yield f"- {_plain(note)}"
    if outline.failures:
        rows: list[tuple[str, ...]] = [
            (p.verdict.value, p.kernel, p.law, str(p.count), str(len(p.targets)), p.known) for p in outline.failures
        ]
        yield ""
        yield markdown_table(PlainTable(("verdict", "kernel", "law", "runs", "targets", "known as"), rows))
    for failure in outline.failures:
        yield ""
        yield f"{fence}text\n{failure.brief}\n{fence}"
        if failure.explanation is not None:
            yield f"<details><summary>everything that is known</summary>\n\n{fence}text"
            yield f"{failure.text}\n{fence}\n</details>"
    yield ""
    lines = [(line.kernel, line.target, str(line.judged), line.ratios) for line in outline.targets]
    yield markdown_table(PlainTable(("kernel", "target", "runs", "worst passing err/budget"), lines))


def _annotation(failure: Failure) -> str:
    place = f"file={escaped_property(failure.location.path)},line={failure.location.line}"
    title = escaped_property(f"kernelfuzz {failure.verdict.value} {failure.kernel}")
    return f"::error {place},title={title}::{escaped(failure.brief)}"


def escaped(text: str) -> str:
    """Return text escaped as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(text: str) -> str:
    """Return text escaped as one property of a workflow command."""
    return escaped(text).replace(":", "%3A").replace(",", "%2C")


def _plain(text: str) -> str:
    """Return text for Markdown without the beginning of an HTML tag."""
    return escape(text.replace("\n", " "), quote=False)


MARK = "<!-- kernelfuzz -->"
"""The beginning of the comment, by which a later run finds the comment to edit."""
COMMENT_CHARACTERS = 65_536
"""The most characters of a comment on GitHub."""
_MOST = 20
"""The most failures in the comment; the step summary has all."""


def comment(outline: Outline) -> str:
    """Return the comment, cut to the length that GitHub accepts."""
    found = [MARK, *_lines(outline)]
    while len("\n".join(found)) > COMMENT_CHARACTERS - 1:
        found.pop()
    return "\n".join(found) + "\n"


def _lines(outline: Outline) -> Iterator[str]:
    yield f"### kernelfuzz {outline.verb}: {outline.outcome.ending}"
    yield f"\n{counted(outline.judged, 'judged run')} of {counted(outline.cases, 'case')}, seed {outline.seed}."
    worse, better = outline.failing, outline.better
    count = len(worse) + len(outline.outcome.complaints)
    nothing = "nothing" if outline.outcome.passed else "not known, as not everything was judged"
    yield f"\n**Worse: {count or nothing}**" + ("" if worse else ".")
    for line in (*remarks(outline.outcome), *not_judged(outline.outcome)):
        yield f"- {_code(line)}"
    for failure in worse[:_MOST]:
        fence = _fence(3, failure.brief)
        yield f"\n{fence}text\n{failure.brief}\n{fence}"
    if len(worse) > _MOST:
        yield f"\nand {len(worse) - _MOST} more: see the summary of the step."
    yield f"\n**Better: {len(better) or 'nothing'}**" + ("" if better else ".")
    for line in better:
        yield f"- {_code(line)}"
    known = len(outline.failures) - len(worse)
    if known:
        yield f"\n{known} more failed before, too."


def _code(text: str) -> str:
    """Return text as inline code, so that nothing in it is read as markup."""
    fence = _fence(1, text)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"
