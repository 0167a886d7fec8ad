"""Snapshots of reports: files beside a test that hold what people read, and are written again with
`pytest --snapshot-update`. Only what differs between two runs or machines is left out of them."""

from __future__ import annotations

import html
import re
from pathlib import Path

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from fuzz.core.base import __version__

_SECONDS = (r'"seconds": \{[^}]*\}', '"seconds": {}')
_STEADY = (
    (r"\b\d+(\.\d+)?(e-\d+)? (s|ms|CPU seconds)\b", r"N \3"),
    (r"\b(\d+:)?\d+:\d\d\b", "M:SS"),
    (r"\b[\d,]+(\.\d+)?(/s| judged runs a second)", r"N\2"),
    (r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?", "DATE"),
    (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b", "DIGEST"),
    (r"\b([Pp]ython|numpy|torch) \d+(\.\d+)+[\w.+]*", r"\1 VERSION"),
    (r"^Try: .*kernelfuzz ", "Try: kernelfuzz "),
    (r"\b[\d,]+ MB\b", "N MB"),
    (r"^ *\"?not exercised, as there is no GPU: .*\n", ""),
    (r"[ \t]+$", ""),
    _SECONDS,
)
"""What differs from run to run, and what stands for it."""


class TextSnapshot(SingleFileSnapshotExtension):
    """A file of text for each snapshot."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


def steady(text: str, *folders: Path) -> str:
    """Return a report with a word for each duration, version, digest and folder in it."""
    for number, folder in enumerate(folders):
        text = text.replace(str(folder), "/FOLDER" if number == 0 else f"/FOLDER{number}")
    text = text.replace(__version__, "VERSION")
    for pattern, instead in _STEADY:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


def but_for_seconds(ruling: str) -> str:
    """Return a ruling in JSON without what its phases took."""
    return re.sub(*_SECONDS, ruling)


def words_of_page(page: str) -> str:
    """Return what a page of HTML shows, a line for each line of its source that has words."""
    shown = re.sub(r"<(style|script|svg)\b.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    return "\n".join(filter(None, (" ".join(html.unescape(line).split()) for line in shown.splitlines()))) + "\n"
