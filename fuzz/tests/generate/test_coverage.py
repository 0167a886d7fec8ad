"""The ledger: what is a hole, and that no hole keeps the others waiting."""

from __future__ import annotations

from fuzz.generate.coverage import Ledger

SPACE = {"n": ("1", "2", "3"), "dtype": ("f32",)}


def test_holes_close_as_labels_are_seen() -> None:
    ledger = Ledger(SPACE)
    assert ledger.holes() == {"n": ["1", "2", "3"], "dtype": ["f32"]}
    ledger.see([("n", "2"), ("dtype", "f32"), ("n", "99")])
    assert ledger.holes() == {"n": ["1", "3"]}
    assert ledger.counts["n"] == {"2": 1, "99": 1}
    ledger.see([("n", "1"), ("n", "3")])
    assert ledger.holes() == {}
    assert ledger.hole(0) is None


def test_every_hole_gets_its_turn() -> None:
    ledger = Ledger(SPACE)
    assert {ledger.hole(turn) for turn in range(4)} == {("n", "1"), ("n", "2"), ("n", "3"), ("dtype", "f32")}
