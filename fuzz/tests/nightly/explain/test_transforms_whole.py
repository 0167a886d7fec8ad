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


def _headline(row: str, kernel: Callable[..., Any], cases: int = 20) -> str:
    each = ROWS[row]
    dtypes = {"z": "complex64"} if "z=" in each.shapes else {}
    given: dict[str, Any] = {"dtypes": dtypes, "seed": 1, "max_cases": cases, **each.given}
    with pytest.raises(fuzz.CheckFailed) as found:
        fuzz.check(kernel, reference=each.reference, shapes=each.shapes, **given)
    return " ".join(str(found.value).partition("->")[0].split())


@pytest.mark.parametrize(("row", "at"), SAID)
def test_the_matrix_of_a_kernel_names_what_is_wrong(row: str, at: int) -> None:
    kernel, said = ROWS[row].wrong[at]
    assert said in _headline(row, kernel)


@pytest.mark.parametrize("kernel", HIDDEN)
def test_what_an_impulse_alone_shows_is_called_so(kernel: Callable[..., Any]) -> None:
    assert "breaks impulse" in _headline("fft", kernel, cases=200)
