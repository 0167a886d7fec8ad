"""Kernels of routing, of places and of sorted rows: none that is right is accused in 500 cases, each wrong one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tests.common import selecting
from fuzz.tests.common.own_pack import unknown_afterwards


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    with unknown_afterwards():
        yield


@pytest.mark.parametrize(("reference", "kernel"), selecting.RIGHT, ids=selecting.name)
def test_what_computes_the_same_passes(reference: Callable[..., Any], kernel: Callable[..., Any]) -> None:
    fuzz.check(kernel, reference=reference, shapes="x=... n", max_cases=500, seed=2)


@pytest.mark.parametrize(("reference", "kernel"), selecting.WRONG, ids=selecting.name)
def test_what_is_wrong_is_found(reference: Callable[..., Any], kernel: Callable[..., Any]) -> None:
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check(kernel, reference=reference, shapes="x=... n", max_cases=300, seed=2)
