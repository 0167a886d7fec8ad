"""The ledger and the steering: what is a hole, how it is filled, and that no hole keeps the others waiting."""

from __future__ import annotations

import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.base import capability as accept
from fuzz.base.capability import Taker
from fuzz.base.kernel import Capabilities
from fuzz.generate.coverage import Ledger
from fuzz.generate.menus import PLACED
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.requirements import anything
from fuzz.generate.sketch import Sketch, fitting_n
from fuzz.generate.space import space_of
from fuzz.generate.steering import steer

SPACE = {"n": ("1", "2", "3"), "dtype": ("f32",)}


def test_holes_close_as_labels_are_seen() -> None:
    ledger = Ledger(SPACE)
    assert ledger.holes() == {"n": ["1", "2", "3"], "dtype": ["f32"]}
    ledger.see([("n", "2"), ("dtype", "f32"), ("n", "99")])
    assert ledger.holes() == {"n": ["1", "3"]}
    assert ledger.counts["n"] == {"2": 1, "99": 1}
    ledger.see([("n", "1"), ("n", "3")])
    assert ledger.holes() == {}
    assert not ledger.is_open
    assert ledger.wanted(0) == []


def test_every_hole_gets_its_turn_and_every_kind_comes_first() -> None:
    ledger = Ledger(SPACE)
    turns = [ledger.wanted(turn) for turn in range(6)]
    assert {hole for holes in turns for hole in holes} == {("n", "1"), ("n", "2"), ("n", "3"), ("dtype", "f32")}
    assert all({kind for kind, _ in holes} == {"n", "dtype"} for holes in turns)
    assert {holes[0][0] for holes in turns[::2]} == {"n"}, "the kind with most holes"
    assert {holes[0][0] for holes in turns[1::2]} == {"n", "dtype"}


@pytest.mark.parametrize("name", ["composed", "tile-fast", "backward-generic"])
def test_the_first_hole_of_each_turn_is_filled(name: str) -> None:
    """Each kind of a kernel's space, one value after the other, in a case that the kernel takes."""
    (kernel,) = [kernel for kernel in load(built_in()).kernels if kernel.name == name]
    taker = accept.taker(kernel)
    space = space_of([taker])
    missed = []
    for kind, values in space.items():
        for turn, value in enumerate(values[:: max(1, len(values) // 3)]):
            if kind == "memory" or value.split()[0] in PLACED:
                continue  # which only values and luck decide
            sketch = Sketch(taker, fitting_n(taker, 40), 3, 2, 1, False, 1e-5, "normal", 11 * turn)
            ledger = Ledger(space)
            holes = [(kind, value), *(hole for hole in ledger.wanted(turn) if hole[0] != kind)]
            case = realise(steer(sketch, taker, ledger, holes, turn))
            assert taker.refusal(case) is None
            if (kind, value) not in case.origin.labels:
                missed.append((kind, value))
    assert missed == []


def test_one_draw_fills_holes_of_many_kinds() -> None:
    taker = anything("fused_add_rms_norm_backward")
    ledger = Ledger(space_of([taker]))
    before = ledger.size
    for turn in range(60):
        sketch = Sketch(taker, 40, 3, 2, 1, False, 1e-5, "normal", turn)
        ledger.see(realise(steer(sketch, taker, ledger, ledger.wanted(turn), turn)).origin.labels)
    assert before - ledger.size > 60 * 8


def test_what_a_kernel_cannot_be_given_is_no_hole() -> None:
    short = Taker("rms_norm", Capabilities(max_n=70, multiple_of=2))
    space = space_of([short])
    assert space["tail of 64"] == ("2", "4", "6")
    assert "tail of 128" not in space
    whole = space_of([Taker("rms_norm", Capabilities(multiple_of=64))])
    assert whole["tail of 48"] == ("0", "16", "32")
    assert "spike tail" not in whole["x recipe"]


def test_a_case_without_elements_visits_nothing_else() -> None:
    taker = anything("rms_norm")
    draw = plan(Sketch(taker, 300, 0, 2, 1, False, 1e-5, "normal", 3))
    assert realise(draw).origin.labels == (("dtype", draw.part("x").dtype), ("rows", "0"))
