"""`kernelfuzz gate`: before a change lands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options


def gate(
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REF", help="Search only the kernels that differ from this commit or branch."),
    ] = None,
    op: options.Op = "*",
    target: options.Targets = None,
    keyword: options.Keyword = None,
    max_cases: Annotated[int, typer.Option("--max-cases", min=0, help="Cases of the search.")] = 2000,
    require: options.Require = None,
    known: Annotated[
        Path | None, typer.Option("--known", help="Known failures, each with an issue and an expiry date (TOML, JSON).")
    ] = None,
    strict_accuracy: Annotated[
        bool, typer.Option("--strict-accuracy", help="Fail where a kernel lost more than a quarter of its accuracy.")
    ] = False,
    update_accuracy: Annotated[
        bool, typer.Option("--update-accuracy", help="Write the accuracy measured now to accuracy.json.")
    ] = False,
    corpora: Annotated[
        Path | None, typer.Option("--corpora", help="The corpus folder. Default: corpora/ of the checkout or of here.")
    ] = None,
    pack: options.Pack = None,
    json: options.Json = None,
    report: options.Report = None,
    output: Annotated[Path, typer.Option("--output", help="Folder for the case files of findings.")] = Path("findings"),
    no_shrink: options.NoShrink = False,
    explain_time: options.ExplainTime = 5.0,
    case_limit: options.CaseLimit = None,
    jobs: options.Jobs = 0,
) -> int:
    """Run every kernel on the kept cases and the published suites, then search the kernels that a change touches.

    The same commit gives the same answer every time: cases are counted, not timed, and no seed is drawn. Without --base
    every kernel is searched.
    """
    from fuzz.cli.gating import Request, run_gate

    return run_gate(
        Request(
            base=base,
            op=op,
            targets=tuple(target or ()),
            keyword=keyword,
            max_cases=max_cases,
            require=tuple(require or ()),
            known=known,
            strict_accuracy=strict_accuracy,
            update_accuracy=update_accuracy,
            corpora=corpora,
            pack=pack,
            json=json,
            report=tuple(report or ()),
            output=output,
            explain_time=None if no_shrink else explain_time,
            case_limit=case_limit,
            jobs=jobs,
        )
    )
