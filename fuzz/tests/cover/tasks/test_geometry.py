"""Windows, resizes, samples and padding are read, right kernels pass, and wrong ones are found."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import fuzz
from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from fuzz.tests.common.geometry_kernels import ROWS
from oracles.tests.common.whole import quarter

pytestmark = pytest.mark.usefixtures("quick_checks")


def check(row: str, kernel: object, cases: int) -> None:
    each = ROWS[row]
    assert callable(kernel)
    fuzz.check(kernel, reference=each.reference, shapes=each.shapes, max_cases=cases, seed=1, **each.given)


@pytest.mark.some(2)
@pytest.mark.parametrize(("row", "at"), [(row, at) for row, each in ROWS.items() for at in range(len(each.right))])
def test_a_right_kernel_passes(row: str, at: int) -> None:
    check(row, ROWS[row].right[at], quarter(16))


@pytest.mark.some(2)
@pytest.mark.parametrize(("row", "at"), [(row, at) for row, each in ROWS.items() for at in range(len(each.wrong))])
def test_a_wrong_kernel_is_found(row: str, at: int) -> None:
    with pytest.raises(fuzz.CheckFailed):
        check(row, ROWS[row].wrong[at], 12)


def test_no_usual_test_is_run_where_windows_of_its_rows_need_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> object:
        raise AssertionError("a case of 64 rows of 1,024 elements was made")

    monkeypatch.setattr("fuzz.campaign.tolerance.plain_case", asked)
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check(lambda x: -x, reference=lambda x: functional.unfold(x, 3), shapes="x=b c h w", max_cases=4, seed=1)
    with pytest.raises(AssertionError, match="was made"):
        fuzz.check(lambda x: -x, reference=lambda x: torch.relu(x), shapes="x=b n", max_cases=4, seed=1)


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
def test_other_samples_are_refused(mode: str) -> None:
    def reflected(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(x, g, mode=mode, padding_mode="reflection", align_corners=False)

    with pytest.raises(UnreadableError, match="by cubic splines, or with reflection"):
        derive(reflected, "x=b c h w, g=b i j k, k=2")
