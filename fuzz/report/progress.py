"""Progress on stderr: a live line on a terminal, or a line every few seconds in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fuzz.core.base.case import Case
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import Wait
from fuzz.core.judge.judge import Judgement
from fuzz.findings.tally import Observer, Tally
from fuzz.report.console import PLAIN_INTERVAL
from oracles import escalation

_LIVE_INTERVAL = 0.25
"""Seconds between two updates of a live line: often enough to look alive."""
_FIRST = 8
"""The number of kernels whose first failure is printed at once; the table has all."""
_NOTICED_S, LOGGED_S = 2.0, 5.0
"""The seconds after which a running case is named on a live line, and in a log. Chosen."""


class LiveLine:
    """A line on a terminal that is replaced by the next one; without a terminal it is not shown. Other output is not
    captured, since a kernel may run in this process."""

    def __init__(self, console: Console) -> None:
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(
                console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )

    @property
    def is_there(self) -> bool:
        """Whether there is a terminal, and the line was not removed."""
        return self._live is not None

    def show(self, line: str) -> None:
        """Show the line, cut to the width of the terminal."""
        if self._live is not None:
            self._live.start()
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def stop(self) -> None:
        """Remove the line for good."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class Progress(Observer):
    """An observer that shows the elapsed time, failing kernels, judged runs, and runs per second."""

    def __init__(
        self, console: Console, tally: Tally, max_time: float | None, max_cases: int | None, patience: float = 0.0
    ) -> None:
        self._console = console
        self._tally = tally
        self._max_time = max_time
        self._max_cases = max_cases
        self._last = patience
        self._named: set[tuple[str, str]] = set()
        self._failing: set[str] = set()
        self._live = LiveLine(console)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the live line for good, and print no more lines."""
        self._live.stop()
        self._last = math.inf

    def progress(self, elapsed: float) -> None:
        """Show the line again, if the last time is long enough ago."""
        interval = _LIVE_INTERVAL if self._live.is_there else PLAIN_INTERVAL
        if elapsed - self._last < interval:
            return
        self._last = elapsed
        self._show(elapsed, "")

    def failed(self, kernel: str, case: Case, judgement: Judgement, elapsed: float) -> None:
        """Print a line at once for the first failing run of a kernel."""
        if kernel not in self._failing and len(self._failing) < _FIRST:
            self._failing.add(kernel)
            self._console.print(first_failure(kernel, case, judgement, elapsed), style="red")

    def waiting(self, waits: Sequence[Wait], elapsed: float) -> None:
        """Name the case that has run longest: on a live line while it runs, in a log once."""
        longest = max(waits, key=lambda wait: wait.seconds, default=None)
        if longest is None or longest.seconds < (_NOTICED_S if self._live.is_there else LOGGED_S):
            return
        name = f"waiting for {longest.target}: {longest.words}"
        case = longest.target, longest.name
        if self._live.is_there and elapsed - self._last >= _LIVE_INTERVAL:
            self._last = elapsed
            self._show(elapsed, name)
        elif not self._live.is_there and case not in self._named:
            self._named.add(case)
            self._console.print(name)

    def _show(self, elapsed: float, name: str) -> None:
        line = progress_line(self._tally, elapsed, self._max_time, self._max_cases)
        line = f"{name} · {line}" if name else line  # first, since a narrow terminal cuts the rest
        if self._live.is_there:
            self._live.show(line)
        else:
            self._console.print(line)


def progress_line(tally: Tally, elapsed: float, max_time: float | None, max_cases: int | None) -> str:
    """Return one line, such as '0:12 of 1:00 · no failure · 12 cases · 312 judged runs · 26/s'. The most important part
    comes first, since a narrow terminal cuts the rest."""
    rate = tally.judged / elapsed if elapsed > 0 else 0.0
    failing = list(dict.fromkeys(target.kernel for target in tally.targets.values() if target.findings))
    return " · ".join((
        spent(elapsed, max_time),
        f"{failing[0]} fails" if len(failing) == 1 else f"{len(failing)} kernels fail" if failing else "no failure",
        *_counted(tally, max_cases),
        counted(tally.judged, "judged run"),
        f"{rate:,.0f}/s",
    ))  # fmt: skip


def _counted(tally: Tally, max_cases: int | None) -> list[str]:
    if max_cases is None:
        return [counted(tally.cases, "case")]
    known = [f"{counted(tally.known, 'known case')}"] if tally.known else []
    return [*known, f"{tally.cases - tally.known:,} of {counted(max_cases, 'case')}"]


def first_failure(kernel: str, case: Case, judgement: Judgement, elapsed: float) -> str:
    """Return one line, such as '0:03 softmax fails: FAIL_NUMERIC on torch-softmax@cpu, x f32 [1, 5]'."""
    name, tensor = next(iter(case.inputs.items()))
    law = f" {judgement.broken_law_name}" if judgement.broken_law_name else ""
    where = f"{judgement.verdict.value}{law} on {judgement.target}"
    return f"{minutes(elapsed)} {kernel} fails: {where}, {name} {tensor.dtype} {list(tensor.layout.shape)}"


def minutes(seconds: float) -> str:
    """Return '1:05' for 65 seconds, and '1:00:05' for an hour and 5 seconds."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}"


def spent(seconds: float, limit: float | None) -> str:
    """Return the time that was used, such as '0:12 of 0:40'; without its limit once that is over."""
    return f"{minutes(seconds)} of {minutes(limit)}" if limit and seconds < limit else minutes(seconds)


class _Teller:
    """Prints a line about an output that takes long to judge, every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = -math.inf

    def tell(self, step: escalation.PreciseProgress) -> None:
        now = time.monotonic()
        if step.seconds >= LOGGED_S and now - self._last >= PLAIN_INTERVAL:
            self._last = now
            self._console.print(f"judging {step.words}")


@contextmanager
def judging_told(console: Console) -> Iterator[None]:
    """Let a line be printed, inside the block, about each output that takes the oracle long."""
    before, escalation.watch = escalation.watch, _Teller(console).tell
    try:
        yield
    finally:
        escalation.watch = before
