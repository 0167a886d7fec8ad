"""Nights in this process, on one target or a few, until so much is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from fuzz.campaign.nightly.night import Night
from fuzz.campaign.nightly.opening import open_night
from fuzz.campaign.search.deadline import Stopping
from fuzz.core.adapters.pack import Pack
from fuzz.core.adapters.target import Target
from fuzz.findings.database import open_state
from fuzz.findings.database_views import BucketTotals, view
from fuzz.findings.tally import Tally
from fuzz.tests.common.hunting import GENERIC


def nights_of(state: Path, targets: Target | list[Target], *findings: int) -> Iterator[list[BucketTotals]]:
    """Nights until so many findings, each in new processes, and what each ends with."""
    targets = targets if isinstance(targets, list) else [targets]
    (state / "findings").mkdir(exist_ok=True)
    for number, count in enumerate(findings, start=1):
        engine = open_state(state / "state.sqlite")
        opened = open_night(engine, number, 6000.0, "", {}, resume=False)
        with Stopping(6000.0) as stopping, pytest.MonkeyPatch.context() as patient:
            patient.setattr("fuzz.campaign.nightly.night.SECONDS", 600.0)  # what is explained depends on no clock
            pack = Pack(state / "pack", (GENERIC,))
            night = Night(state, pack, (), targets, engine, opened, stopping, pytest.fail)
            night.session.searched = ()  # this process takes the turns
            with night.session:
                night.begin()
                night.runner.enough = _EverythingExplained(night, stopping, count)
                night.search()
        yield _checked(engine, state)


class _EverythingExplained:
    """Ends a search that has found enough, and the night once all of it is explained."""

    def __init__(self, night: Night, stopping: Stopping, count: int) -> None:
        self._night, self._stopping, self._count = night, stopping, count

    def __call__(self, tally: Tally) -> bool:
        enough = tally.findings >= self._count or tally.cases > 20 * self._count
        if enough and not any(bucket.pending for bucket in self._night.book.buckets.values()):
            self._stopping.wanted = True
        return enough


def _checked(engine: Engine, state: Path) -> list[BucketTotals]:
    seen = view(engine)
    for row in seen.targets:
        assert row.findings == sum(bucket.sightings.get(row.name, 0) for bucket in seen.buckets), row.name
    assert {path.name for path in (state / "findings").iterdir()} == {b.row.case_file for b in seen.buckets}
    return list(seen.buckets)
