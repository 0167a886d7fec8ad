"""`kernelfuzz run`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options


def run(
    max_time: options.MaxTime = None,
    max_cases: Annotated[int | None, typer.Option("--max-cases", min=1, help="Stop after this many cases.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same seed, same cases. Default: fresh.")] = None,
    op: options.Op = "*",
    target: options.Targets = None,
    keyword: options.Keyword = None,
    require: options.Require = None,
    pack: options.Pack = None,
    json: options.Json = None,
    output: Annotated[Path, typer.Option("--output", help="Folder for the case files of findings.")] = Path("findings"),
    report: options.Report = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Print what the cases visited of the input space, and each coverage gap.")
    ] = False,
    no_shrink: options.NoShrink = False,
    explain_time: options.ExplainTime = 45.0,
    case_limit: options.CaseLimit = None,
    sanitize: options.Sanitize = False,
    jobs: options.Jobs = 0,
) -> int:
    """Fuzz every kernel on every target until a limit is reached.

    Without --max-time and --max-cases it runs until Ctrl-C. Findings are written as case files at once. After the
    search each is shrunk and explained, and printed with the command that reproduces it.
    """
    from fuzz.cli.fuzzing import Request, fuzz

    return fuzz(
        Request(
            max_time=max_time,
            max_cases=max_cases,
            seed=seed,
            op=op,
            targets=tuple(target or ()),
            keyword=keyword,
            require=tuple(require or ()),
            pack=pack,
            json=json,
            output=output,
            report=tuple(report or ()),
            coverage=coverage,
            explain_time=None if no_shrink else explain_time,
            case_limit=case_limit,
            sanitize=sanitize,
            jobs=jobs,
        )
    )
