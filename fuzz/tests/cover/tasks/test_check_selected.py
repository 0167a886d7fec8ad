"""Kernels of routing, of places and of sorted rows are held against torch's own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz.tests.common import selecting
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.common.told import fails
from oracles.tests.common.whole import quarter


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unexplained: None) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with unknown_afterwards():
        yield


@pytest.mark.some(1)
@pytest.mark.parametrize(("reference", "kernel"), selecting.RIGHT, ids=selecting.name)
def test_what_computes_the_same_passes(reference: Callable[..., Any], kernel: Callable[..., Any]) -> None:
    fuzz.check(kernel, reference=reference, shapes="x=... n", max_cases=quarter(24), seed=1)


@pytest.mark.some(1)
@pytest.mark.parametrize(("reference", "kernel"), selecting.QUICK, ids=selecting.name)
def test_what_selects_others_is_found(reference: Callable[..., Any], kernel: Callable[..., Any]) -> None:
    with fails():
        fuzz.check(kernel, reference=reference, shapes="x=... n", max_cases=quarter(48), seed=1)
