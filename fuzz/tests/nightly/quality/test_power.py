"""What is caught: no less than what others notice, and what the page on calibration says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fuzz.quality.power import Smallest, smallest
from fuzz.tests.conftest import CHECKOUT
from oracles.ops import OPS

_WIDER: Mapping[tuple[str, int], int] = {("log_softmax_backward", 4096): 2}
"""A sum of 4096 terms that cancel is allowed the worst case of its order, which is so many powers of two beyond torch's
fixed tolerance."""


def _said() -> Mapping[tuple[str, str, str], str]:
    """Each cell of the page's table, by op, what is wrong, and column."""
    text = (CHECKOUT / "oracles" / "CALIBRATION.md").read_text().split("<!-- power -->")[1].split("<!-- /power -->")[0]
    columns, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines())
    return {
        (op, wrong, column): cell
        for op, wrong, *cells in lines
        for column, cell in zip(columns[2:], cells, strict=True)
    }


def _is_noticed_by_others_alone(each: Smallest) -> bool:
    others = [other for other in (each.torch, each.suite) if other is not None]
    least = min(others, default=None)
    return least is not None and (each.caught is None or each.caught > least + _WIDER.get((each.op, each.n), 0))


@pytest.mark.parametrize("n", [64, 4096])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("op", OPS)
def test_what_is_caught_is_what_others_notice_and_what_the_page_says(op: str, dtype: str, n: int) -> None:
    said = _said()
    for each in smallest(OPS[op], dtype, 32, n, 1):
        assert not _is_noticed_by_others_alone(each), each
        assert said[op, each.wrong, f"{dtype}, n = {n}"] == each.cell, "print the page's table again"
