"""What the oracle says nothing of: hardly any element of hostile rows, but for integers of NaN."""

from __future__ import annotations

import pytest

from fuzz.quality import oracle
from fuzz.quality.oracle import escalations
from oracles.ops import OPS


@pytest.mark.parametrize("op", OPS)
def test_an_op_leaves_hardly_anything_open_or_to_many_digits(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An element takes mpmath a thousand times as long as it takes float64. A block of MXFP8 waits for it whose largest
    magnitude is the very number at which its scale changes."""
    monkeypatch.setattr(oracle, "_LENGTHS", (7, 70))
    shares = list(escalations(OPS[op], "f32", 1))
    elements = sum(each.elements for each in shares)
    assert sum(each.open for each in shares) / elements <= 0.01
    assert sum(each.escalated for each in shares) / elements <= (0.005 if "mxfp8" in op else 0.0001)


def test_integers_of_nan_are_named_by_themselves() -> None:
    shares = {each.recipe: each for each in escalations(OPS["quantize_rows"], "f32", 1)}
    assert shares["one_nan"].undefined
    assert not shares["one_nan"].open
    assert not shares["normal"].undefined
