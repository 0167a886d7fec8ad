"""`python3 -m fuzz.quality newcomer`: what `torch.testing.assert_close` and `fuzz.check` say of the seven kernels."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from fuzz.cli.exits import Exit
from fuzz.cli.options import duration
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.errors import UsageError
from fuzz.core.base.selection import keyword
from fuzz.explain.explanation import Explanation
from fuzz.report import console
from fuzz.report.brief import Commands, brief
from fuzz.report.console import PlainTable, print_table
from fuzz.report.words import what_is_wrong
from fuzz.tasks.demonstration import found_by_check
from oracles.dtypes import FORMATS

_SEED = 1
_SHAPE = (64, 1024)
"""The usual shape, with nothing left over for any block."""
_DTYPES = ("f32", "bf16")
_EPS = 1e-5
_WIDE = 1000
"""More columns than the first lines of a failure can have, so that none is folded."""


@dataclass(frozen=True)
class NewcomerOptions:
    """The options of `python3 -m fuzz.quality newcomer`."""

    keyword: Annotated[
        str | None, typer.Option("-k", metavar="EXPR", help="Only kernels whose name matches, e.g. 'softmax or eps'.")
    ] = None
    explain_time: Annotated[
        float,
        typer.Option("--explain-time", metavar="5m", parser=duration, help="The most for explaining one, when found."),
    ] = 300.0


@dataclass(frozen=True)
class NewcomerVerdict:
    """What is said of one kernel."""

    name: str
    mistake: str
    close: bool
    """Whether `assert_close` passes, in each dtype."""
    found: Sequence[Explanation]
    seconds: tuple[float, float]
    """The seconds until it was found, and until it was also explained."""

    @property
    def explained(self) -> bool:
        """Whether there was time for the whole explanation."""
        return all(each.explained == "whole" for each in self.found)

    @property
    def row(self) -> tuple[str, ...]:
        """Its row of the table."""
        ours = "; ".join(dict.fromkeys(_words(each) for each in self.found)) or "passes"
        until_found, until_explained = self.seconds
        close = "passes" if self.close else "fails"
        return f"`{self.name}`", self.mistake, close, ours, f"{until_found:.1f}", f"{until_explained:.0f}"


def newcomer(options: NewcomerOptions) -> Exit:
    """Print the table of the docs: what assert_close and fuzz.check say of kernels with mistakes that people make."""
    if find_spec("torch") is None:
        raise UsageError("torch is not installed, in which these kernels are written: sh .ci/setup torch")
    print_table(table(compared(options.keyword, options.explain_time)), markdown=True)
    return Exit.OK


def table(rows: Sequence[NewcomerVerdict]) -> PlainTable:
    """Return the table."""
    rank = f"`assert_close` at {_SHAPE[0]} x {_SHAPE[1]}"
    return PlainTable(
        ("kernel", "mistake", rank, "`fuzz.check`", "found in, s", "explained in, s"), [each.row for each in rows]
    )


def compared(chosen: str | None, explain_s: float) -> list[NewcomerVerdict]:
    """Return what is said of each kernel."""
    from fuzz.quality.newcomer.kernels import PLANTED

    matches = keyword(chosen) if chosen else lambda name: True
    err, rows = console.progress(), []
    for kernel, right in PLANTED.items():
        if matches(kernel.__name__):
            err.print(kernel.__name__)
            _, until_found = _checked(kernel, right.__name__, 0.0)
            found, until_explained = _checked(kernel, right.__name__, explain_s)
            seconds = until_found, until_explained
            mistake = str(kernel.__doc__).rstrip(".")
            rows.append(NewcomerVerdict(kernel.__name__, mistake, is_close(kernel, right), found, seconds))
    return rows


def is_close(kernel: Callable[..., Any], right: Callable[..., Any]) -> bool:
    """Whether torch.testing.assert_close passes on normal values at the usual shape, in each dtype."""
    import torch

    dice = torch.Generator().manual_seed(_SEED)
    for dtype in (getattr(torch, FORMATS[name].spelling) for name in _DTYPES):
        given = {"x": torch.randn(_SHAPE, generator=dice), "weight": torch.randn(_SHAPE[-1:], generator=dice)}
        names = inspect.signature(kernel).parameters
        tensors = {name: each.to(dtype) for name, each in given.items() if name in names}
        numbers = {"eps": _EPS} if "eps" in names else {}
        try:
            torch.testing.assert_close(kernel(**tensors, **numbers), right(**tensors, **numbers))
        except AssertionError:
            return False
    return True


def _checked(kernel: Callable[..., Any], op: str, explain_s: float) -> tuple[list[Explanation], float]:
    """Return what a check says, and the seconds that it took."""
    began = time.perf_counter()
    found = found_by_check(kernel, op, Capabilities(dtypes=_DTYPES, empty=False), explain_s, _SEED)
    return found, time.perf_counter() - began


def _words(told: Explanation) -> str:
    """Return what is wrong, and the smallest case with what came of it."""
    return f"**{what_is_wrong(told)}**: {brief(told, Commands(), _WIDE).splitlines()[1].strip()}"
