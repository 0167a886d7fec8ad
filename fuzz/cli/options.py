"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzz.base.duration import seconds


def parse_duration(text: str | float) -> float:
    """Seconds in '30s', '5m', '8h' or a plain number of seconds. A default arrives as the number that it is."""
    if isinstance(text, float):
        return text
    try:
        return seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Pack = Annotated[
    Path | None, typer.Option("--pack", help="Folder of kernels with a pack.py. Default: the built-in kernels.")
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Only targets that match this glob, e.g. 'c-sve@*'. Repeatable, or comma-separated."),
]
Keyword = Annotated[
    str | None, typer.Option("-k", metavar="EXPR", help="Only targets whose name matches, e.g. 'sve and not O0'.")
]
Op = Annotated[str, typer.Option("--op", help="Only kernels of this op (a glob).")]
Json = Annotated[Path | None, typer.Option("--json", help="Write machine-readable records to this file.")]
Jobs = Annotated[int, typer.Option("-j", "--jobs", min=0, help="Targets that run at a time. 0: one per processor.")]
CaseLimit = Annotated[
    float | None,
    typer.Option(
        "--case-limit",
        parser=parse_duration,
        metavar="5s",
        help="A case that takes longer is a TIMEOUT. Default: 5s, and 30s to 120s where kernels are compiled first.",
    ),
]
Sanitize = Annotated[
    bool, typer.Option("--sanitize", help="Run CUDA kernels under compute-sanitizer: slow, but sees stray reads too.")
]
MaxTime = Annotated[
    float | None,
    typer.Option("--max-time", parser=parse_duration, metavar="30s|5m|8h", help="Stop after this long."),
]
NoShrink = Annotated[
    bool, typer.Option("--no-shrink", help="Show findings as they were found: neither shrunk nor explained.")
]
ExplainTime = Annotated[
    float,
    typer.Option(
        "--explain-time",
        parser=parse_duration,
        metavar="45s",
        help="For shrinking and explaining one finding, after the search; all of them get at most four times that.",
    ),
]
Report = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT=FILE",
        help="Write a report: text, json, junit, sarif or github. Without =FILE to stdout. Repeatable.",
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", help="Targets that must run, as a glob: exit code 10 if one does not. Repeatable."),
]
