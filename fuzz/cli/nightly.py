"""`kernelfuzz nightly`: the long job, with a state that outlives it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options


def nightly(
    state: Annotated[Path, typer.Option("--state", help="Folder of the state; made if it does not exist.")],
    max_time: Annotated[
        float,
        typer.Option("--max-time", parser=options.parse_duration, metavar="30s|5m|8h", help="How long a night is."),
    ] = 8 * 3600.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the latest night where it was stopped or killed.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Only write page and reports again, from what the state holds.")
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Repeat the night of this seed.")] = None,
    op: options.Op = "*",
    target: options.Targets = None,
    keyword: options.Keyword = None,
    require: Annotated[
        list[str] | None,
        typer.Option("--require", help="Targets that must run, as a glob: exit code 10 if one does not. Repeatable."),
    ] = None,
    pack: options.Pack = None,
    json: options.Json = None,
    report: options.Report = None,
    case_limit: options.CaseLimit = None,
    jobs: options.Jobs = 0,
) -> int:
    """Replay what is known, then search all ops on all targets with fresh seeds until the night is over.

    Findings, counts and coverage are saved with every batch, so that a kill or a full disk loses nothing: go on with
    --resume. The night ends with STATE/report.html.
    """
    from fuzz.cli.night_results import leave
    from fuzz.cli.nights import Request, render_again, run_night

    request = Request(
        state=state,
        max_time=max_time,
        resume=resume,
        seed=seed,
        op=op,
        targets=tuple(target or ()),
        keyword=keyword,
        require=tuple(require or ()),
        pack=pack,
        json=json,
        report=tuple(report or ()),
        case_limit=case_limit,
        jobs=jobs,
    )
    if not report_only:
        leave(run_night(request))
    return render_again(request)
