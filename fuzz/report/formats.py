"""Report formats by name, and where each is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.base.errors import UsageError
from fuzz.report import github
from fuzz.report.junit import junit
from fuzz.report.outline import Outline
from fuzz.report.plain import as_json, text
from fuzz.report.sarif import sarif

FORMATS: Mapping[str, Callable[[Outline], str]] = {
    "text": text,
    "json": as_json,
    "junit": junit,
    "sarif": sarif,
    "github": github.summary,
}


@dataclass(frozen=True)
class Wanted:
    """A report that was asked for."""

    format: str
    path: Path | None
    """None: standard output, and for 'github' the file that $GITHUB_STEP_SUMMARY names."""


class FormatError(UsageError):
    """A --report that cannot be read."""


def parse(options: Sequence[str]) -> tuple[Wanted, ...]:
    """Read 'FORMAT' and 'FORMAT=FILE'. Raises FormatError, also for a file that cannot be written."""
    wanted = []
    for option in options:
        name, _, path = option.partition("=")
        if name not in FORMATS:
            raise FormatError(f"--report {option}: write FORMAT=FILE; the formats are {', '.join(FORMATS)}")
        file = Path(path) if path and path != "-" else None
        obstacle = unwritable(file.parent) if file is not None else None
        if obstacle is not None:
            raise FormatError(f"--report {option}: {obstacle} cannot be written")
        wanted.append(Wanted(name, file))
    return tuple(wanted)


def unwritable(folder: Path) -> Path | None:
    """The folder, or the nearest of its parents that exists, where that cannot be written; None where it can."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return None if existing.is_dir() and os.access(existing, os.W_OK) else existing


def write_reports(outline: Outline, wanted: Sequence[Wanted]) -> None:
    """Write every report that was asked for. Raises OSError."""
    for each in wanted:
        content = FORMATS[each.format](outline)
        if each.format == "github":
            # Annotations only count where the runner reads them: on standard output.
            print("\n".join(github.commands(outline)))
            summary = each.path or os.environ.get("GITHUB_STEP_SUMMARY")
            if summary:
                _append(Path(summary), content)
        elif each.path is None:
            sys.stdout.write(content)
        else:
            each.path.parent.mkdir(parents=True, exist_ok=True)
            each.path.write_text(content, encoding="utf-8")


def _append(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(content)
