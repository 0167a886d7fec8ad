"""Any case is a draw of given values, which gives it back bit for bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.core.base.case import CaseError
from fuzz.core.base.draw import GIVEN
from fuzz.core.base.kernel import capabilities_of
from fuzz.core.generate.aliasing import memory_labels
from fuzz.core.generate.big import SERIES, Big, big_case
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.realise import cases_of, draw_of, laid, realise
from fuzz.core.generate.sketch import sketches
from fuzz.tests.common.examples import any_case, each_op, first_cases, plain
from fuzz.tests.common.hunting import PACK
from oracles.tests.common.whole import WHOLE

KERNELS = PACK.kernels


@pytest.mark.some(2)
@each_op
@given(data=st.data())
def test_a_draw_of_a_case_gives_it_back(op: str, data: st.DataObject) -> None:
    case = data.draw(any_case(op))
    again = realise(draw_of(case))
    assert again.digest == case.digest
    assert again == case


@pytest.mark.whole
@each_op
def test_a_draw_of_a_searched_case_gives_it_back(op: str) -> None:
    """It does where tensors share memory, and of invalid cases too."""
    cases = first_cases(op, 3, KERNELS, count=320 if WHOLE else 160)
    shared = any(any(memory_labels(each)) for each in capabilities_of(KERNELS, op))
    assert any(not case.apart for case in cases) is shared
    for case in cases:
        assert realise(draw_of(case)).digest == case.digest


@pytest.mark.parametrize("big", [SERIES[0], SERIES[2]], ids=lambda big: big.name)
def test_a_draw_of_a_big_case_gives_it_back(big: Big) -> None:
    case = big_case(big, "fused_add_rms_norm", True)
    assert realise(draw_of(case)).digest == case.digest


def test_given_values_are_repeated_and_cut() -> None:
    draw = draw_of(plain(5, rows=2))
    own = realise(draw).inputs["x"].bits
    one = draw.with_parts(*(replace(p, placement=replace(p.placement, strides=None)) for p in draw.parts))
    assert {part.recipe for part in one.parts if part.recipe} == {GIVEN}
    assert realise(replace(one, n=3)).inputs["x"].bits == own[:12] + own[20:32]
    longer = realise(replace(one, n=7, outer=(3,)))
    row = own[:20] + own[:8]
    assert longer.inputs["x"].bits == row + own[20:] + own[20:28] + row
    assert longer.structured, "what is repeated is not random"
    assert not realise(one).structured


def test_a_case_of_a_shape_that_its_op_does_not_know_has_no_draw() -> None:
    case = plain(5)
    output = replace(case.outputs["y"], layout=replace(case.outputs["y"].layout, shape=(2, 4)))
    with pytest.raises(CaseError, match="shape"):
        draw_of(replace(case, outputs={"y": output}))


@pytest.mark.some(1)
@each_op
@given(data=st.data())
@settings(max_examples=30)
def test_cases_that_are_made_together_are_those_of_each_draw(op: str, data: st.DataObject) -> None:
    draws = data.draw(st.lists(sketches([anything(op)]).map(draw_from), min_size=1, max_size=6))
    together = cases_of([laid(draw) for draw in draws])
    for draw, case in zip(draws, together, strict=True):
        assert case == realise(draw)
        assert case.origin.labels[: len(laid(draw).labels)] == laid(draw).labels
