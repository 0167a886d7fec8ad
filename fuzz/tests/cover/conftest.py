"""In the gate an explanation stands on few probes, since a whole one takes 10 CPU seconds and more; at night on all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.tasks.check.setup import GIVEN
from oracles.tests.common.whole import WHOLE

_FEWER = {
    "stages.explain._HELD": 20,
    "stages.explain._HELD_SLOWLY": 20,
    "stages.explain._AT_A_TIME": 20,
    "stages.explain._SEARCHED": 8,
    "stages.explain._CONVINCED": 1,
    "evidence.probes._SWEPT": 70,
    "evidence.probes._MIXED": 24,
    "evidence.refutation._POOL": 40,
    "evidence.refutation._SIZED": 40,
    "evidence.refutation._VALUED": 40,
}
"""Numbers of probes in `fuzz.explain`."""


@pytest.fixture(autouse=True)
def _few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    if not WHOLE:
        for name, number in _FEWER.items():
            monkeypatch.setattr(f"fuzz.explain.{name}", number)


@pytest.fixture
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `fuzz.check` finds is neither shrunk nor explained: the test is about what it finds."""
    monkeypatch.setattr(GIVEN, "options", replace(GIVEN.options, explain_s=0.0))
