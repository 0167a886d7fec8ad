"""Whatever is drawn, or steered to, is within what the kernel that it is meant for takes, and visits what it should."""

from __future__ import annotations

from itertools import combinations, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case, Layout
from fuzz.core.base.dispatch import SMALL
from fuzz.core.base.feature import Feature, Label
from fuzz.core.base.kernel import capabilities_of
from fuzz.core.generate.aliasing import aliased_as
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.gaps import corners_of
from fuzz.core.generate.layouts import LAYOUT_CLASSES, classes_of
from fuzz.core.generate.menus import FACTORS
from fuzz.core.generate.realise import realise
from fuzz.core.generate.sketch import LARGEST_CASE, ROWS, N, Sketch, sketches
from fuzz.core.generate.space import space_of
from fuzz.core.generate.steering import steer
from fuzz.tests.common.examples import each_op
from fuzz.tests.common.hunting import PACK
from oracles.ops import OPS

KERNELS = PACK.kernels
CAPABILITIES = [capability for op in OPS for capability in capabilities_of(KERNELS, op)]
LARGE = (N, ROWS, Feature("tail", operand=256))


def _is_chancy(op: str, kind: Feature) -> bool:
    """Values decide, or a recipe overrules it."""
    products = kind == ROWS and len(OPS[op].inner) > 2  # rows along several dimensions are a product of extents
    return products or kind == Feature("recipe", OPS[op].main) or kind.kind == "parameter"


@pytest.mark.some(1)
@each_op
@given(st.data())
@settings(max_examples=60)
def test_every_draw_is_accepted_by_its_taker(op: str, data: st.DataObject) -> None:
    sketch = data.draw(sketches(capabilities_of(KERNELS, op)))
    case = realise(draw_from(sketch))
    assert sketch.capability.refusal(case) is None
    _check_pitches(case)


def _check_pitches(case: Case) -> None:
    """No two tensors with gaps between their rows have them at one distance, but those that share memory."""
    labels = dict(case.origin.labels)
    pitched = [
        (name, _pitch(tensor.layout, int(case.params["axis"])))
        for name, tensor in case.tensors.items()
        if labels.get(Feature("layout", name)) in ("pitched", "padded") and name in OPS[case.op].alike
        if any(extent > 1 for a, extent in enumerate(tensor.layout.shape) if a != case.params["axis"])
    ]
    for (one, first), (two, second) in combinations(pitched, 2):
        assert first != second, (one, two)


def _pitch(layout: Layout, axis: int) -> int:
    """From a row to the next one."""
    strides = zip(layout.shape, layout.strides, strict=True)
    return min(abs(stride) for a, (extent, stride) in enumerate(strides) if a != axis and extent > 1)


def _sketch(capability: Capability, seed: int) -> Sketch:
    return Sketch(capability, 40 * capability.step("n"), 3, 2, 1, False, {"eps": 1e-5}, "normal", seed)


@pytest.mark.some(1)
@each_op
def test_every_gap_can_be_filled(op: str) -> None:
    """For each declaration of the pack: one in seven labels of its space, none for long rows."""
    for place, capability in enumerate(capabilities_of(KERNELS, op)):
        gaps = corners_of(capability).gaps(0, 0)
        labels = [(kind, value) for kind, values in space_of([capability]).items() for value in values]
        for turn, (kind, value) in enumerate(labels):
            is_large = kind in LARGE and isinstance(value, int) and value > 300
            if _is_chancy(op, kind) or is_large or (turn + place) % 7:
                continue
            case = realise(steer(_sketch(capability, turn), capability, gaps, [(kind, value)], turn))
            if kind.kind == "memory" and isinstance(value, tuple):
                case = aliased_as(case, value, turn)
            assert capability.refusal(case) is None, (kind, value)
            if any(label[0].kind == "extent" and label[1] == 0 for label in case.origin.labels):
                continue  # an empty case, which another gap asked for, counts as nothing else
            assert (kind, value) in case.origin.labels, (kind, value)
            of_size = kind in LARGE or kind.kind in ("tail", "tile", "extent", "remainder")
            of_size |= len(OPS[op].named) > 1  # whose other extents are as they come
            assert of_size or SMALL.holds(case), f"{kind.label()} {value} would not be counted"


@each_op
def test_a_gap_of_any_size_goes_with_every_other_gap(op: str) -> None:
    """Empty rows and rows of millions of elements too: what is asked for first decides, and nothing is divided by."""
    capability = capabilities_of(KERNELS, op)[0]
    space, gaps = space_of([capability]), corners_of(capability).gaps(0, 0)
    lengths = [n for n in space[N] if isinstance(n, int)]
    # An index has no place along what is empty.
    is_indexed = any(operand.integers for operand in OPS[op].inputs)
    can_be_empty = 0 in space.get(ROWS, ()) and not is_indexed and len(OPS[op].inner) < 3
    sizes = [(N, min(lengths)), (N, max(lengths)), *([(ROWS, 0)] if can_be_empty else [])]
    others = [(kind, next(iter(values))) for kind, values in space.items() if kind.kind != "memory"]
    others = [each for each in others if not (is_indexed and each[0].kind == "extent")]
    for turn, (size, other) in enumerate(product(sizes, others)):
        draw = steer(_sketch(capability, turn), capability, gaps, [size, other], turn)
        if size[1] <= 300:
            assert size in realise(draw).origin.labels, (size, other)


def test_the_space_names_every_layout_and_every_recipe_for_weights() -> None:
    free = next(each for each in CAPABILITIES if each.op == "rms_norm" and each.able.stacked)
    space = space_of([free])
    assert set(space[Feature("layout", "x")]) == set(LAYOUT_CLASSES)
    assert set(space[Feature("layout", "weight")]) == {*classes_of(2)}, "it has two axes at most"
    assert set(space[Feature("recipe", "weight")]) == set(FACTORS)
    assert set(space[Feature("stack", "weight")]) == {"one", "many"}
    assert {131, 132, 255, 256, 257, 265} <= set(space[ROWS])
    assert {511, 2049, 8193, 65536, 65537} <= set(space[N])


def test_a_space_has_no_length_that_rows_cannot_have() -> None:
    """A byte has two codes, of two elements of a row; a variance is of two elements and more."""
    packed, varying = (space_of([anything(op)]) for op in ("int4_matmul", "row_var"))
    lengths = [*packed[N], *packed[Feature("tail", operand=64)]]
    assert len(lengths) > 60
    assert not [n for n in lengths if isinstance(n, int) and n % 2]
    assert {0, 1, 2} & {*varying[N]} == {2}


def test_many_wishes_at_once_do_not_make_a_huge_case() -> None:
    """Many rows are wished for, and long ones, and several axes: never all of it."""
    capability = next(each for each in CAPABILITIES if each.op == "rms_norm" and each.able.stacked)
    gaps = corners_of(capability).gaps(0, 0)
    layout, tail = Feature("layout", "x"), Feature("tail", operand=256)
    wanted: list[Label] = [(N, 65537), (ROWS, 265), (layout, "padded"), (tail, 7)]
    for order in permutations(wanted):
        draw = steer(_sketch(capability, 1), capability, gaps, order, 1)
        assert order[0][0] != N or draw.n == 65537
        assert order[0][0] != ROWS or draw.rows == 265
        assert draw.rows == 1 or draw.rows * draw.n <= LARGEST_CASE
