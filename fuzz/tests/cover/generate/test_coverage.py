"""The ledger and the steering: what is a gap, how it is filled, and that no gap keeps the others waiting."""

from __future__ import annotations

import pytest

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.feature import Feature
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.gaps import ASKED, Corners, corners_of
from fuzz.core.generate.menus import PLACED
from fuzz.core.generate.realise import realise
from fuzz.core.generate.sketch import ROWS, N, Sketch, fitting_n
from fuzz.core.generate.space import Space, space_of
from fuzz.core.generate.steering import steer

SMALL = Capability("rms_norm", Capabilities(max={"n": 3}))
DTYPE = Feature("dtype")
SPACE: Space = {N: (1, 2, 3), DTYPE: ("f32",)}


def test_gaps_close_as_labels_are_seen() -> None:
    ledger = Ledger(SPACE)
    assert ledger.gaps() == {N: [1, 2, 3], DTYPE: ["f32"]}
    ledger.see([(N, 2), (DTYPE, "f32"), (N, 99)])
    assert ledger.gaps() == {N: [1, 3]}
    assert ledger.counts[N] == {2: 1, 99: 1}
    ledger.see([(N, 1), (N, 3)])
    assert ledger.gaps() == {}
    assert not ledger.is_open


def test_every_gap_gets_its_turn_and_every_kind_comes_first() -> None:
    corners = Corners(SMALL)
    space = space_of([SMALL])
    most = max(space, key=lambda kind: len(space[kind]))
    first = [corners.wanted(corners.everything, place)[0] for place in range(3 * max(len(space), len(space[most])))]
    assert {*first[::2]} == {(most, value) for value in space[most]}
    assert {kind for kind, _ in first[1::2]} == {*space}
    for place in range(6):
        kinds = [kind for kind, _ in corners.wanted(corners.everything, place)]
        assert len({*kinds}) == len(kinds) == ASKED < len(space)


def test_what_was_seen_is_asked_for_no_more() -> None:
    corners = Corners(SMALL)
    seen = corners.seen([(N, 2), (DTYPE, "f32"), (N, "no such value")])
    assert seen.bit_count() == 2
    left = corners.gaps(seen, 0)
    for place in range(50):
        assert not {(N, 2), (DTYPE, "f32")} & {*left.wanted(place)}
    assert not left.without(corners.everything)
    assert left.without(corners.everything).wanted(3) == []


def test_turns_side_by_side_begin_with_other_gaps() -> None:
    corners = Corners(anything("rms_norm"))
    first = [corners.gaps(0, turn).wanted(10 * turn)[0] for turn in range(64)]
    assert len({*first}) > 40
    parts = [corners.gaps(0, turn).part for turn in range(64)]
    assert sum(part.bit_count() for part in parts) == corners.size


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["composed", "tile-fast", "backward-generic"])
def test_the_first_gap_of_each_turn_is_filled(name: str) -> None:
    """Each kind of a kernel's space, one value after the other, in a case that the kernel takes."""
    (kernel,) = [kernel for kernel in load(built_in()).kernels if kernel.name == name]
    capability = kernel.capability
    space = space_of([capability])
    missed = []
    for kind, values in space.items():
        for turn, value in enumerate(values[:: max(1, len(values) // 3)]):
            if kind.kind == "memory" or value in PLACED or (kind.kind == "recipe" and isinstance(value, tuple)):
                continue  # which only values and luck decide
            sketch = Sketch(capability, fitting_n(capability, 40), 3, 2, 1, False, {"eps": 1e-5}, "normal", 11 * turn)
            gaps = corners_of(capability).gaps(0, turn)
            wanted = [(kind, value), *(gap for gap in gaps.wanted(turn) if gap[0] != kind)]
            case = realise(steer(sketch, capability, gaps, wanted, turn))
            assert capability.refusal(case) is None
            if (kind, value) not in case.origin.labels:
                missed.append((kind, value))
    assert missed == []


def test_one_draw_fills_gaps_of_many_kinds() -> None:
    capability = anything("fused_add_rms_norm_backward")
    corners = corners_of(capability)
    gaps = corners.gaps(0, 0)
    for turn in range(60):
        sketch = Sketch(capability, 40, 3, 2, 1, False, {"eps": 1e-5}, "normal", turn)
        case = realise(steer(sketch, capability, gaps, gaps.wanted(turn), turn))
        gaps = gaps.without(corners.seen(case.origin.labels))
    assert corners.size - gaps.waiting.bit_count() > 60 * 8


def test_what_a_kernel_cannot_be_given_is_no_gap() -> None:
    short = Capability("rms_norm", Capabilities(max={"n": 70}, multiple_of={"n": 2}))
    space = space_of([short])
    assert space[Feature("tail", operand=64)] == (2, 4, 6)
    assert Feature("tail", operand=128) not in space
    whole = space_of([Capability("rms_norm", Capabilities(multiple_of={"n": 64}))])
    assert whole[Feature("tail", operand=48)] == (0, 16, 32)
    assert ("spike", "tail") not in whole[Feature("recipe", "x")]


def test_a_case_without_elements_visits_nothing_else() -> None:
    capability = anything("rms_norm")
    draw = draw_from(Sketch(capability, 300, 0, 2, 1, False, {"eps": 1e-5}, "normal", 3))
    assert realise(draw).origin.labels == ((DTYPE, draw.part("x").dtype), (ROWS, 0))
