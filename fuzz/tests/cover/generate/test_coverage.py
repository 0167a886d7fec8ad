"""The ledger and the steering: what is a gap, how it is filled, and that no gap keeps the others waiting."""

from __future__ import annotations

import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.base.capability import Capabilities, Capability
from fuzz.generate.capabilities import anything
from fuzz.generate.coverage import Ledger
from fuzz.generate.menus import PLACED
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.sketch import Sketch, fitting_n
from fuzz.generate.space import space_of
from fuzz.generate.steering import steer

SPACE = {"n": ("1", "2", "3"), "dtype": ("f32",)}


def test_gaps_close_as_labels_are_seen() -> None:
    ledger = Ledger(SPACE)
    assert ledger.gaps() == {"n": ["1", "2", "3"], "dtype": ["f32"]}
    ledger.see([("n", "2"), ("dtype", "f32"), ("n", "99")])
    assert ledger.gaps() == {"n": ["1", "3"]}
    assert ledger.counts["n"] == {"2": 1, "99": 1}
    ledger.see([("n", "1"), ("n", "3")])
    assert ledger.gaps() == {}
    assert not ledger.is_open
    assert ledger.wanted(0) == []


def test_every_gap_gets_its_turn_and_every_kind_comes_first() -> None:
    ledger = Ledger(SPACE)
    turns = [ledger.wanted(turn) for turn in range(6)]
    assert {gap for gaps in turns for gap in gaps} == {("n", "1"), ("n", "2"), ("n", "3"), ("dtype", "f32")}
    assert all({kind for kind, _ in gaps} == {"n", "dtype"} for gaps in turns)
    assert {gaps[0][0] for gaps in turns[::2]} == {"n"}, "the kind with most gaps"
    assert {gaps[0][0] for gaps in turns[1::2]} == {"n", "dtype"}


@pytest.mark.parametrize("name", ["composed", "tile-fast", "backward-generic"])
def test_the_first_gap_of_each_turn_is_filled(name: str) -> None:
    """Each kind of a kernel's space, one value after the other, in a case that the kernel takes."""
    (kernel,) = [kernel for kernel in load(built_in()).kernels if kernel.name == name]
    capability = kernel.capability
    space = space_of([capability])
    missed = []
    for kind, values in space.items():
        for turn, value in enumerate(values[:: max(1, len(values) // 3)]):
            if kind == "memory" or value.split()[0] in PLACED:
                continue  # which only values and luck decide
            sketch = Sketch(capability, fitting_n(capability, 40), 3, 2, 1, False, 1e-5, "normal", 11 * turn)
            ledger = Ledger(space)
            gaps = [(kind, value), *(gap for gap in ledger.wanted(turn) if gap[0] != kind)]
            case = realise(steer(sketch, capability, ledger, gaps, turn))
            assert capability.refusal(case) is None
            if (kind, value) not in case.origin.labels:
                missed.append((kind, value))
    assert missed == []


def test_one_draw_fills_gaps_of_many_kinds() -> None:
    capability = anything("fused_add_rms_norm_backward")
    ledger = Ledger(space_of([capability]))
    before = ledger.size
    for turn in range(60):
        sketch = Sketch(capability, 40, 3, 2, 1, False, 1e-5, "normal", turn)
        ledger.see(realise(steer(sketch, capability, ledger, ledger.wanted(turn), turn)).origin.labels)
    assert before - ledger.size > 60 * 8


def test_what_a_kernel_cannot_be_given_is_no_gap() -> None:
    short = Capability("rms_norm", Capabilities(max_n=70, multiple_of=2))
    space = space_of([short])
    assert space["tail of 64"] == ("2", "4", "6")
    assert "tail of 128" not in space
    whole = space_of([Capability("rms_norm", Capabilities(multiple_of=64))])
    assert whole["tail of 48"] == ("0", "16", "32")
    assert "spike tail" not in whole["x recipe"]


def test_a_case_without_elements_visits_nothing_else() -> None:
    capability = anything("rms_norm")
    draw = plan(Sketch(capability, 300, 0, 2, 1, False, 1e-5, "normal", 3))
    assert realise(draw).origin.labels == (("dtype", draw.part("x").dtype), ("rows", "0"))
