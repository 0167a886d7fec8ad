"""The answer of a judge: a ruling printed on stdout, and an exit code."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz.core.base.exits import Exit
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.readers.source import begun

if TYPE_CHECKING:
    from fuzz.references.derive import Derived
    from fuzz.tasks.judge.ruling import Judged
    from fuzz.tasks.readers.statement import Statement

_EXITS = {
    "right": Exit.OK, "wrong": Exit.FINDINGS, "undecided": Exit.ORACLE_GAVE_UP, "did not run": Exit.NOTHING_RAN,
}  # fmt: skip


def answered(
    asked: Asked, *, json: bool, verbose: bool, began: float | None = None,
    read: Callable[[Asked], tuple[Statement, Derived]] | None = None,
) -> Exit:  # fmt: skip
    """Judge solutions, print the ruling, and return the exit code. The time limit counts from `began`, a time of the
    monotonic clock, by default now. `read` returns the problem, for callers that have read it already."""
    began = time.monotonic() if began is None else began
    with begun(asked.solutions, asked.against, asked.output, untrusted=asked.untrusted):
        from fuzz.report import console
        from fuzz.tasks.judge.judging import judged

        screen = console.silent() if json else console.progress()
        done = judged(asked, screen, console.room(console.results()), verbose=verbose, read=read, began=began)
        return printed(done, json=json)


def overdue(asked: Asked, *, json: bool) -> Exit:
    """Print the ruling that nothing was judged, because the judge took too long, and return the exit code."""
    from fuzz.report import console
    from fuzz.tasks.judge.judging import unjudged

    return printed(unjudged(asked, console.room(console.results())), json=json)


def printed(done: Judged, *, json: bool) -> Exit:
    """Print a ruling and return the exit code."""
    from fuzz.report import console

    console.results().print(done.ruling.text() if json else done.text, soft_wrap=True)
    return _EXITS[done.ruling.verdict] if done.code is None else done.code
