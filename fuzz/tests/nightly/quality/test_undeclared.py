"""What it costs to declare nothing: measuring takes back some of it, and the page on calibration says how much."""

from __future__ import annotations

import pytest

from fuzz.quality.undeclared import cell, costs
from fuzz.tests.conftest import CHECKOUT
from oracles.ops import OPS

_SHARPER = {"quantize_nvfp4": 3, "scaled_matmul": 1}
"""By so many powers of two what is measured may be sharper than what is declared: flags, 7 here, are exact in any order
and rounded in that of the formula; and lanes count additions of empty ones, of which sums of 4 terms have most."""
_UNMEASURED = {"attention", "attention_backward"}
"""Ops that the page leaves out."""


def _said(op: str, column: str) -> str:
    text = (CHECKOUT / "oracles" / "CALIBRATION.md").read_text()
    text = text.split("<!-- undeclared -->")[1].split("<!-- /undeclared -->")[0]
    columns, _, *lines = ([each.strip() for each in line.strip("|").split("|")] for line in text.strip().splitlines())
    return next(line for line in lines if line[0] == op)[columns.index(column)]


@pytest.mark.parametrize("n", [64, 1024])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("op", sorted({*OPS} - _UNMEASURED))
def test_what_is_measured_takes_back_what_it_costs_to_declare_nothing(op: str, dtype: str, n: int) -> None:
    found = [*costs(OPS[op], dtype, 32, n, 1)]
    for each in found:
        if each.undeclared is not None:
            assert each.measured is not None
            assert each.measured <= each.undeclared, each
        if each.measured is not None:
            assert each.declared is not None
            assert each.declared <= each.measured + _SHARPER.get(op, 0), each
    assert _said(op, f"{dtype}, n = {n}") == cell(found), "print the page's table again"
