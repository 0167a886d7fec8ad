"""What moved over the nights, as the page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.base.git import said_of
from fuzz.findings.database_views import Bracket, BugHistory, Trends

_WIDTH, _HEIGHT = 100.0, 24.0
_CSS = {"fixed": "passes-now", "flaky": "not-seen"}
"""The colours of statuses; others are those of what fails."""


@dataclass(frozen=True)
class Bug:
    """One bug over the nights."""

    bug: BugHistory
    came: str
    """Which commit brought it, as far as nights tell."""

    @property
    def css(self) -> str:
        """Its colour."""
        return _CSS.get(self.bug.status, self.bug.status)


@dataclass(frozen=True)
class Moved:
    """One number over the nights."""

    label: str
    values: Sequence[float]
    form: str = "{:,.3f}"

    @property
    def words(self) -> str:
        """The first and the last value."""
        return " → ".join(self.form.format(value) for value in dict.fromkeys((self.values[0], self.values[-1])))

    @property
    def points(self) -> list[tuple[float, float]]:
        """A line through them, in the units of its drawing."""
        top, count = max(self.values) or 1.0, max(1, len(self.values) - 1)
        return [(at * _WIDTH / count, _HEIGHT - 2 - (_HEIGHT - 4) * each / top) for at, each in enumerate(self.values)]


def bugs_of(trends: Trends, folder: Path | None) -> list[Bug]:
    """Every bug; `folder` is one of the repository of the pack, where there is one."""
    order = ("new", "open", "flaky", "fixed")
    known = sorted(trends.bugs, key=lambda bug: (order.index(bug.status), bug.signature))
    return [Bug(bug, came_words(bug.bracket, folder) if bug.bracket is not None else "") for bug in known]


def came_words(bracket: Bracket, folder: Path | None) -> str:
    """The first bad commit where there is but one between the nights, or the commits that it is among."""
    if not bracket.named:
        return ""
    if bracket.good == bracket.bad:
        return f"both at {bracket.bad}"
    span = f"after {bracket.good}, up to {bracket.bad}"
    told = said_of(folder, "rev-list", f"{bracket.good}..{bracket.bad}") if folder is not None else None
    count = len(told.splitlines()) if told else 0
    if count == 1:
        return bracket.bad
    return f"{span} ({count} commits)" if count else span


def moves_of(trends: Trends) -> list[Moved]:
    """Pace and coverage, and the accuracy of each kernel that was judged in two nights or more."""
    nights = [past for past in trends.nights if past.judged]
    found = [Moved("judged runs a second", [past.rate for past in nights], "{:,.0f}")] if nights else []
    covered = [past.coverage for past in nights if past.coverage is not None]
    found += [Moved("coverage of the space", covered, "{:.1%}")] if covered else []
    kernels = sorted({kernel for past in nights for kernel in past.worst})
    worst = {kernel: [past.worst[kernel] for past in nights if kernel in past.worst] for kernel in kernels}
    return found + [Moved(f"{name}: worst err/budget", each) for name, each in worst.items() if len(each) > 1]
