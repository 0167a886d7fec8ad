"""`kernelfuzz demo`: an example of what kernelfuzz does, in a quarter of a minute."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from fuzz.cli import options
from fuzz.cli.exits import Exit


@dataclass(frozen=True)
class DemoOptions:
    """The options of `kernelfuzz demo`."""

    explain_time: Annotated[
        float, options.timed("--explain-time", "12s", "Processor time to make the case small and to find the rule.")
    ] = 12.0


def demo(options: DemoOptions) -> Exit:
    """Find and explain a planted bug that an ordinary test passes.

    It takes about 15 seconds, needs nothing but NumPy, and leaves nothing behind.

    For example: kernelfuzz demo
    """
    began = time.monotonic()
    from fuzz.report import console
    from fuzz.report.brief import WIDTH
    from fuzz.tasks.demonstration import found, next_lines, planted_lines, told_text

    out = console.results()
    console.print_lines(out, planted_lines())
    print("2. kernelfuzz, which tries other shapes and values, against the exact result:\n", flush=True)
    told = found(options.explain_time)
    console.print_failure(out, told_text(told, min(console.room(out), WIDTH)))
    console.print_lines(out, next_lines(time.monotonic() - began))
    return Exit.OK
