"""A wrong kernel of a transform is found by a check, and called by what its transforms of unit impulses tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tests.common.transform_kernels import HIDDEN, ROWS

SAID = [(row, at) for row, each in ROWS.items() for at in range(len(each.wrong)) if each.wrong[at].said]


@pytest.fixture(autouse=True)
def _no_time(quick_checks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no time to search for a rule."""
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path, explain_s=1e-3))


def _check(row: str, kernel: Callable[..., Any], cases: int = 20, seed: int = 1) -> None:
    each = ROWS[row]
    dtypes = {"z": "complex64"} if "z=" in each.shapes else {}
    given: dict[str, Any] = {"dtypes": dtypes, "seed": seed, "max_cases": cases, **each.given}
    fuzz.check(kernel, reference=each.reference, shapes=each.shapes, **given)


def _headline(row: str, kernel: Callable[..., Any], cases: int = 20) -> str:
    with pytest.raises(fuzz.CheckFailed) as found:
        _check(row, kernel, cases)
    return " ".join(str(found.value).partition("->")[0].split())


@pytest.mark.parametrize(("row", "at"), SAID)
def test_the_matrix_of_a_kernel_names_what_is_wrong(row: str, at: int) -> None:
    kernel, said = ROWS[row].wrong[at]
    assert said in _headline(row, kernel)


@pytest.mark.parametrize("kernel", HIDDEN)
def test_what_an_impulse_alone_shows_is_called_so(kernel: Callable[..., Any]) -> None:
    assert "breaks impulse" in _headline("fft", kernel, cases=200)


@pytest.mark.parametrize(("row", "at"), [(row, at) for row, each in ROWS.items() for at in range(len(each.right))])
def test_right_kernels_pass_with_three_seeds(row: str, at: int) -> None:
    for seed in (11, 12, 13):
        _check(row, ROWS[row].right[at], cases=40, seed=seed)


@pytest.mark.parametrize("row", ROWS)
def test_six_wrong_kernels_are_found_with_ten_seeds(row: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path, explain_s=0.0))
    for kernel, _ in ROWS[row].wrong[:6]:
        for seed in range(10):
            with pytest.raises(fuzz.CheckFailed):
                _check(row, kernel, seed=seed)
