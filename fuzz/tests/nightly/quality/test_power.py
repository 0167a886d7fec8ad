"""What is caught: no less than what others notice, and what the page on calibration says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fuzz.quality.power import Smallest, smallest
from fuzz.tests.conftest import CHECKOUT
from oracles.ops import OPS

_WIDER: Mapping[tuple[str, int], int] = {
    ("log_softmax_backward", 4096): 2, ("cumsum", 4096): 2, ("matmul", 64): 1, ("matmul", 4096): 8,
    ("row_sum", 4096): 7, ("dequantize_matmul", 64): 4, ("dequantize_matmul", 4096): 12,
    ("group_norm", 4096): 1, ("group_norm_backward", 4096): 1, ("quantize_rows_e4m3", 4096): 1,
    ("attention", 64): 1, ("attention", 4096): 6, ("paged_attention", 4096): 8, ("attention_backward", 64): 3,
    ("grouped_matmul", 4096): 5, ("grouped_rows_matmul", 64): 1, ("grouped_rows_matmul", 4096): 8,
    ("int4_matmul", 64): 5, ("int4_matmul", 4096): 15,
}  # fmt: skip
"""By so many powers of two a correct kernel may leave the fixed tolerance of torch. A sum is allowed a share of that of
its magnitudes, by its order: where 4096 terms cancel, or 16384 of codes, that is 50 or 100 times the sum
itself; torch allows 1e-5 and 22 roundings of what is left, whatever the terms were. No order makes that sharper: the
longest chain of 16 lanes and 4 accumulators is 70 additions already, the rest is lambda and the magnitudes. A group
of group_norm has 4 times as many elements; a code of 8 bits is another one as soon as its scale is an ulp off."""

_UNMEASURED = ("attention_backward", 4096)
"""What the page leaves out: it takes a quarter of an hour, and 6 GB."""


def _said() -> Mapping[tuple[str, str, str], str]:
    """What is caught and what torch notices, of the page's table, by op, what is wrong, and column."""
    text = (CHECKOUT / "oracles" / "CALIBRATION.md").read_text().split("<!-- power -->")[1].split("<!-- /power -->")[0]
    columns, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines())
    return {
        (op, wrong, column): cell.rpartition(" / ")[0]
        for op, wrong, *cells in lines
        for column, cell in zip(columns[2:], cells, strict=True)
    }


def _is_noticed_by_others_alone(each: Smallest) -> bool:
    least = each.torch
    if least is None or least == _least(each) or each.wrong.startswith("max("):
        return False
    return each.caught is None or each.caught > least + _WIDER.get((each.op, each.n), 0)


def _least(each: Smallest) -> int:
    """The size at which others start: they notice a kernel in which nothing is wrong. So is none where a maximum is
    wrong that is taken off, and cancels."""
    return 0 if each.wrong.endswith("k ulp") else -26


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("op", "n"), [(op, n) for op in OPS for n in (64, 4096) if (op, n) != _UNMEASURED])
def test_what_is_caught_is_what_others_notice_and_what_the_page_says(op: str, dtype: str, n: int) -> None:
    said = _said()
    for each in smallest(OPS[op], dtype, 32, n, 1):
        assert not _is_noticed_by_others_alone(each), each
        assert said[op, each.wrong, f"{dtype}, n = {n}"] == each.cell, "the page says another size"
