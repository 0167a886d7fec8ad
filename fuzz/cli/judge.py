"""`kernelfuzz judge`: whether solutions compute what a reference computes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit, leave

if TYPE_CHECKING:
    from fuzz.tasks.judge.asked import Asked

QUICK, FULL = 200, 3000
"""The numbers of cases for a quick ruling, some 5 s after the solution is imported, and for a full one, in a minute."""


@dataclass(frozen=True)
class JudgeOptions:
    """The options of `kernelfuzz judge`."""

    solution: Annotated[
        tuple[str, ...],
        typer.Argument(
            help="Files with a function (FILE or FILE:NAME), a class ModelNew, or JSON with sources; or folders.",
            show_default=False,
        ),
    ] = ()
    against: Annotated[
        str,
        typer.Option(
            "--against", metavar="FILE[:NAME]",
            help="The reference, which says what is right: a function of torch tensors, a class Model with get_inputs,"
            " or a definition in JSON. It is trusted, and runs without a sandbox.",
        ),
    ] = ""  # fmt: skip
    shapes: Annotated[
        str | None,
        typer.Option(
            "--shapes", metavar="'x=b n, eps=1e-5'",
            help="The dimensions of the function's tensors, and the values of other arguments.",
        ),
    ] = None  # fmt: skip
    full: Annotated[bool, typer.Option("--full", help=f"Judge {FULL:,} cases instead of {QUICK}.")] = False
    max_cases: Annotated[int | None, typer.Option("--max-cases", min=1, help="Judge this many cases instead.")] = None
    trusted: Annotated[bool, typer.Option("--trusted", help="Run the solution without a sandbox.")] = False
    own_shapes: Annotated[
        bool,
        typer.Option(
            "--own-shapes",
            help="Judge only at the shapes that come with the task, those of get_inputs, by replaying Model.",
        ),
    ] = False
    any_values: Annotated[
        bool,
        typer.Option(
            "--any-values",
            help="Judge values that get_inputs never draws, too, such as those above the diagonal of a triangle.",
        ),
    ] = False
    values: Annotated[
        str, typer.Option("--values", metavar="finite|any", help="any: also judge NaN, infinities and overflow.")
    ] = "finite"
    target: options.Targets = ()
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same seed, same cases. Default: fresh.")] = None
    json: Annotated[bool, typer.Option("--json", help="Print the ruling as one JSON object, and nothing else.")] = False
    output: Annotated[Path, typer.Option("--output", help="Folder for the solutions and for failing cases.")] = Path(
        "judged"
    )
    explaining: options.Explaining = field(default_factory=lambda: options.Explaining(explain_time=20.0))
    case_limit: options.CaseLimit = None
    max_time: Annotated[
        float | None,
        options.timed("--max-time", "30s|5m", "Say after this time what was judged, and what was not."),
    ] = None
    serve: Annotated[
        str, typer.Option("--serve", metavar="SOCKET", help="Stay, and answer whoever asks with --server SOCKET.")
    ] = ""
    server: Annotated[
        str, typer.Option("--server", metavar="SOCKET", help="Have a server judge, which has read the reference.")
    ] = ""
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", min=0, help="What --serve judges at once. 0: one per processor.")
    ] = 0
    desk: Annotated[int | None, typer.Option("--desk", hidden=True)] = None
    verbose: options.Verbose = False


def judge(options: JudgeOptions) -> Exit:
    """Judge whether solutions compute what a reference function computes.

    The exact values, and how far a correct kernel may be from them, follow from the reference. The solution runs in a
    sandbox. Exit code 0: right, 1: wrong, 11: undecided, 5: it did not run.

    For example: kernelfuzz judge mine.py --against reference.py --shapes 'x=... n, w=n'
    """
    # Else torch's threads spin while they wait for each other, which beside other work takes most of the time.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from fuzz.core.base.errors import UsageError
    from fuzz.tasks.judge.asked import JudgeRequest

    if options.desk is not None:
        from fuzz.tasks.judge.server import stand

        stand(options.desk, leave)
    if options.serve:
        from fuzz.tasks.judge.server import serve

        return serve(options.serve, options.jobs or len(os.sched_getaffinity(0)))
    if not options.solution:
        raise UsageError("name the file of a solution, such as: kernelfuzz judge mine.py --against reference.py")
    if not options.against:
        raise UsageError("--against: name the file of the reference, the function that computes the right result")
    if options.values not in ("finite", "any"):
        raise UsageError(f"--values {options.values}: it is finite or any")
    asked = _asked(options)
    if options.server:
        from fuzz.tasks.judge.server import ask

        return ask(options.server, JudgeRequest(asked, options.json, options.verbose))
    from fuzz.tasks.judge.answer import answered

    return answered(asked, json=options.json, verbose=options.verbose)


def _asked(options: JudgeOptions) -> Asked:
    from fuzz.tasks.judge.asked import FULL_REPLAYS, QUICK_REPLAYS, Asked

    cases = options.max_cases or (FULL if options.full else QUICK)
    replays = options.max_cases or (FULL_REPLAYS if options.full else QUICK_REPLAYS)
    return Asked(
        options.solution, options.against, options.shapes, options.values, options.seed, cases, replays,
        options.output, not options.trusted, options.target, options.case_limit, options.explaining.seconds,
        options.own_shapes, options.any_values, options.max_time,
    )  # fmt: skip
