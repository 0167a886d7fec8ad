"""What is said of an output that takes the oracle long, where this very process judges."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from fuzz.report.progress import LOGGED_S, PLAIN_INTERVAL
from oracles import escalation


class _Teller:
    """Prints a line of what takes long, every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = -math.inf

    def tell(self, step: escalation.Step) -> None:
        now = time.monotonic()
        if step.seconds >= LOGGED_S and now - self._last >= PLAIN_INTERVAL:
            self._last = now
            self._console.print(f"judging {step.words}")


@contextmanager
def judging_told(console: Console) -> Iterator[None]:
    """Inside, an output that takes the oracle long is told of."""
    before, escalation.watch = escalation.watch, _Teller(console).tell
    try:
        yield
    finally:
        escalation.watch = before
