"""What is explained is shown while others wait, on a terminal."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.text import Text

from fuzz.campaign.explaining import explain_findings, recognised
from fuzz.campaign.search.stopping import Interruption
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.execute.spent import Spent
from fuzz.explain.attribute.history import Need, Recognised
from fuzz.findings.book import book_in
from fuzz.findings.explainer import Explainer
from fuzz.report.brief import Provenance
from fuzz.tests.common.planted import a_case


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_a_failure_in_short_when_it_is_explained_and_others_wait(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log, which may have the report as well, does not: it would have each failure twice."""
    known = {"note": "", "history": ()}
    piles = [
        [SimpleNamespace(name=name, is_explained=name != "dark", told=name, path=f"{name}.json", **known)]
        for name in ("first", "dark", "last")
    ]
    book = book_in(tmp_path, 1)
    book.buckets |= {bucket.name: bucket for [bucket] in piles}
    monkeypatch.setattr(Explainer, "waiting", property(lambda explainer: piles))
    monkeypatch.setattr(Explainer, "within", lambda explainer, bucket: [])
    clocks = list[object]()

    def sort(explainer: Explainer, pile: object) -> object:
        clocks.append(explainer.bounds.clock)
        return pile

    monkeypatch.setattr(Explainer, "_sort", sort)
    monkeypatch.setattr("fuzz.campaign.explaining.commands_of", lambda told, path, origin: path)
    monkeypatch.setattr("fuzz.campaign.explaining.brief", lambda told, commands: f"FAIL  {told}\n  next: {commands}")
    shown, target = io.StringIO(), SimpleNamespace(id="c-k@native")
    pool = WorkerPool([])
    screen = Console(file=shown, width=200, force_terminal=terminal, color_system=None)
    origin = Provenance(1, "kernelfuzz run")
    explain_findings(book, pool, [target], 60.0, screen, Interruption(), origin)  # type: ignore[list-item]
    first, *lines = Text.from_ansi(shown.getvalue()).plain.splitlines()
    assert first == (
        "shrinking and explaining 3 failures: 60 s of a processor at most for each cause, 240 s in all; "
        "Ctrl-C skips the rest"
    )
    assert all(isinstance(clock, Spent) for clock in clocks), "seconds of processors"
    told = ["FAIL  first", "  next: first.json"] if terminal else []
    # The live line of a terminal is one sign.
    assert [line for line in lines if len(line.strip()) > 1] == told, "the last one follows anyway"


@pytest.mark.parametrize("again", [True, False])
def test_what_a_tool_told_of_one_call_is_looked_for_in_one(again: bool) -> None:
    """Below compute-sanitizer each call takes seconds: neither 64 equal ones are made, nor those before it."""
    asked = list[object]()

    def fails(history: object) -> bool:
        asked.append(history)
        return again

    trial = SimpleNamespace(target=SimpleNamespace(sanitizer="racecheck"), fails=fails)  # which has no other way
    found = recognised(trial, [a_case()] * 3)  # type: ignore[arg-type]
    assert found == Recognised(Need.NOTHING if again else Need.UNKNOWN)
    assert asked == [()]
