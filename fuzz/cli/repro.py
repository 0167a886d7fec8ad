"""`kernelfuzz repro`: replay a case file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options


def repro(
    case: Annotated[
        str,
        typer.Argument(
            help="A case file; how a finding's name or digest begins; or SEED:OP:NUMBER, a case of a search.",
            show_default=False,
        ),
    ],
    findings: Annotated[
        Path, typer.Option("--findings", help="Where findings are looked up: a run's --output, or a nightly's --state.")
    ] = Path("findings"),
    target: options.Targets = None,
    pack: options.Pack = None,
    json: options.Json = None,
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="repro.c|repro.py", help="Write a program that shows it by itself."),
    ] = None,
    case_limit: options.CaseLimit = None,
    sanitize: options.Sanitize = False,
    jobs: options.Jobs = 0,
) -> int:
    """Replay a case on one or all targets, and print the judgement in full.

    Exit code 0: passes everywhere; 1: fails somewhere; 125: nothing could be judged, so that `git bisect run` skips.
    """
    from fuzz.cli.replay import Request, replay

    return replay(Request(case, tuple(target or ()), pack, json, case_limit, sanitize, jobs, script, findings))
