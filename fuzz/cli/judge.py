"""`kernelfuzz judge`: is this right? A solution against the function that says what it should compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit

QUICK, FULL = 200, 3000
"""Cases of a quick verdict, within some 5 s once the solution is imported, and of a full one, within a minute."""
_EXITS = {
    "right": Exit.OK, "wrong": Exit.FINDINGS, "undecided": Exit.ORACLE_GAVE_UP, "did not run": Exit.NOTHING_RAN,
}  # fmt: skip


@dataclass(frozen=True)
class JudgeOptions:
    """The options of `kernelfuzz judge`."""

    solution: Annotated[
        list[str],
        typer.Argument(
            help="Files with a function (FILE or FILE:NAME), a class ModelNew, or JSON with sources; or folders.",
            show_default=False,
        ),
    ]
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
    verbose: options.Verbose = False


def judge(options: JudgeOptions) -> Exit:
    """Judge whether solutions compute what a reference function computes.

    The exact values, and how far a correct kernel may be from them, follow from the reference. The solution runs in a
    sandbox. Exit code 0: right, 1: wrong, 11: undecided, 5: it did not run.

    For example: kernelfuzz judge mine.py --against reference.py --shapes 'x=... n, w=n'
    """
    from fuzz.core.base.errors import UsageError
    from fuzz.tasks.readers.source import begun

    if not options.against:
        raise UsageError("--against: name the file of the reference, the function that computes the right result")
    if options.values not in ("finite", "any"):
        raise UsageError(f"--values {options.values}: it is finite or any")
    with begun(tuple(options.solution), options.against, options.output, untrusted=not options.trusted):
        return _judged(options)


def _judged(options: JudgeOptions) -> Exit:
    from fuzz.report import console
    from fuzz.tasks.judge.judging import judged
    from fuzz.tasks.judge.ruling import FULL_REPLAYS, QUICK_REPLAYS, Asked

    cases = options.max_cases or (FULL if options.full else QUICK)
    replays = options.max_cases or (FULL_REPLAYS if options.full else QUICK_REPLAYS)
    asked = Asked(
        tuple(options.solution), options.against, options.shapes, options.values, options.seed, cases, replays,
        options.output, not options.trusted, options.target, options.case_limit, options.explaining.seconds,
        options.own_shapes, options.any_values,
    )  # fmt: skip
    out, screen = console.results(), console.silent() if options.json else console.progress()
    done = judged(asked, screen, console.room(out), verbose=options.verbose)
    out.print(done.ruling.text() if options.json else done.text, soft_wrap=True)
    return _EXITS[done.ruling.verdict] if done.code is None else done.code
