"""Cases of ops with dimensions of any names: their extents, what is counted of them, and the way back to a draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.case import CaseError
from fuzz.core.base.feature import Feature
from fuzz.core.base.validity import check_case
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.coverage import said
from fuzz.core.generate.dims import MOST_WORK, ranks_of
from fuzz.core.generate.realise import draw_of, realise
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.sketch import ROWS, N
from fuzz.core.generate.space import space_of
from fuzz.core.generate.turn import Made
from oracles.dtypes import ITEMSIZE
from oracles.formula.trace import Node, Outputs, dot, extent, floor, greatest, position, take, where
from oracles.op import Op
from oracles.operand import Operand, Parameter
from oracles.tests.common.dims import ALL, ATTEND, GEMM, PRODUCT, TURN
from oracles.tests.common.judged import known

_TURNS = 16


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


@cache
def made(op: Op, seed: int = 1) -> list[Made]:
    return [each for batch in islice(batches(Search(op.name, seed)), _TURNS) for each in batch]


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_cases_fit_their_op_and_are_those_of_their_draws(op: Op) -> None:
    for each in made(op):
        check_case(each.case)
        assert each.capability.accepts(each.case)
        draw = draw_of(each.case)
        assert realise(draw).digest == each.case.digest
        assert draw.work <= MOST_WORK
        assert draw.rank in ranks_of(op)
        assert draw.axis == draw.rank - 1


def test_what_is_fixed_is_never_another_number() -> None:
    assert {draw_of(each.case).sizes["half"] for each in made(TURN)} == {2}
    assert {draw_of(each.case).sizes["p"] for each in made(TURN)} > {1, 2, 4}
    kinds = space_of([anything(TURN.name)])
    assert Feature("extent", "half") not in kinds
    assert ROWS not in kinds
    draw = draw_of(made(TURN)[0].case)
    with pytest.raises(CaseError, match="always has"):
        realise(replace(draw, outer=(*draw.outer[:-1], 3)))


def test_extents_are_of_every_kind_and_in_every_relation() -> None:
    labels = {label for each in made(PRODUCT) for label in each.case.origin.labels}
    for dim in "mn":
        sizes = {value for kind, value in labels if kind == Feature("extent", dim) and isinstance(value, int)}
        assert {1, 2, 3, 8} <= sizes
        assert sizes & {7, 9, 15, 17, 31, 33, 63, 65}
        assert max(sizes) >= 64
        assert len([value for kind, value in labels if kind == Feature("remainder", dim, operand=16)]) >= 8
    assert {value for kind, value in labels if kind.kind == "equal extents"} == {("m", "k"), ("m", "n"), ("k", "n")}
    assert any(0 in each.case.tensors["b"].layout.shape for each in made(PRODUCT))


def linear(x: Node, w: Node, bias: Node | None = None) -> Outputs:
    y = dot(x, w, "n")
    return {"y": y, "twice": x + x if bias is None else x + bias}


LINEAR = Op(
    linear,
    inputs=(Operand("x", "... n"), Operand("w", "n p"), Operand("bias", "n", optional=True, stackable=True)),
    outputs=(Operand("y", "... p"), Operand("twice", "... n")),
)


@pytest.mark.whole
def test_rows_beside_further_dimensions_lie_along_any_axis_and_have_stacked_columns() -> None:
    with known(LINEAR):
        cases = [each.case for each in made(LINEAR)]
        for case in cases:
            check_case(case)
            assert realise(draw_of(case)).digest == case.digest
        assert {(case.params["axis"], len(case.inputs["x"].layout.shape)) for case in cases} >= {(0, 2), (1, 2), (1, 3)}
        assert {len(case.inputs["bias"].layout.shape) for case in cases if "bias" in case.inputs} == {1, 2}
        assert any(case.inputs["w"].layout.shape[1] > 16 for case in cases)
        along_last = Capability(LINEAR.name, Capabilities(dtypes=("f32",)))
        search = Search(LINEAR.name, 1)
        search.capabilities = (along_last,)
        for batch in islice(batches(search), 20):
            assert {along_last.refusal(each.case) for each in batch} == {None}


def squared(x: Node) -> Outputs:
    return {"y": x * x}


def test_the_length_of_rows_may_be_fixed() -> None:
    op = Op(squared, (Operand("x", "... n"),), (Operand("y", "... n"),), fixed={"n": 64})
    with known(op):
        assert {draw_of(each.case).n for each in made(op)} == {64}
        assert {draw_of(each.case).rows for each in made(op)} > {1, 2, 3}


@pytest.mark.some(1)
@pytest.mark.parametrize("alignment", [16, 64])
def test_every_row_of_every_tensor_is_aligned_where_a_kernel_asks_for_it(alignment: int) -> None:
    able = Capabilities(("f32", "f16"), strides="pitched", alignment=alignment)
    kernel = CKernel("loops", PRODUCT.name, Path("loops.c"), capabilities=able)
    found = [each.case for batch in islice(batches(Search(PRODUCT.name, 1, [kernel])), 8) for each in batch]
    assert all(kernel.capability.accepts(case) for case in found)
    starts = {t.layout.alignment(ITEMSIZE[t.dtype]) % alignment for case in found for t in case.tensors.values()}
    assert starts == {0}
    assert max(len(case.inputs["b"].layout.shape) for case in found) > 2
    assert any(case.inputs["b"].layout.shape[-1] % 4 for case in found if 1 not in case.inputs["b"].layout.shape)


def test_the_same_seed_gives_the_same_cases() -> None:
    first, again = (next(batches(Search(ATTEND.name, 5))) for _ in range(2))
    assert [each.case.digest for each in first] == [each.case.digest for each in again]


def test_every_tensor_has_layouts_of_its_own() -> None:
    for name in ("a", "b", "c"):
        seen = {v for each in made(PRODUCT) for k, v in each.case.origin.labels if k == Feature("layout", name)}
        assert {"contiguous", "pitched", "padded", "transposed", "reversed", "column_step"} <= seen


def test_what_a_search_should_visit_is_named_by_dimensions() -> None:
    space = space_of([anything(GEMM.name)])
    sizes = {kind.label() for kind in space if kind.kind in ("extent", "remainder")}
    assert sizes == {f"extent of {dim}{step}" for dim in "mn" for step in ("", " mod 16")}
    kinds = (N, Feature("row remainder", operand=8), Feature("tail", operand=8), ROWS, Feature("extent", "n"))
    assert [said("gemm", kind) for kind in kinds] == [
        "extent of k", "extent of k mod 8", "tail of 8 along k", "rows of a", "extent of n",
    ]  # fmt: skip
    assert said("rms_norm", N) == "n"
    assert space[Feature("axis")] == ((1, 2),)


def test_no_big_case_is_made_of_what_others_multiply() -> None:
    search = Search(PRODUCT.name, 1)
    assert search.big_series == ()
    assert isinstance(search.capabilities[0], Capability)


def edited(a: Node, b: Node, *, more: Node | float = 0.0) -> Outputs:
    """c = a b + more."""
    return {"c": dot(a, b, "k") + more}


def test_another_op_under_a_name_is_not_taken_for_the_former_one() -> None:
    """A pack that was edited is read again in one process, so its op means another one under its name."""
    former = Op(edited, (Operand("a", "m k"), Operand("b", "k n")), (Operand("c", "m n"),))
    now = replace(former, parameters=(Parameter("more", (0.0, 0.5), neutral=0.0),))
    params: list[set[str]] = []
    for op in (former, now):
        with known(op):
            params.append({name for each in next(batches(Search(op.name, 1))) for name in each.case.params})
    assert "more" in params[1] - params[0]


def pooled(x: Node) -> Outputs:
    """Maxima of windows of 5, in steps of 2."""
    o, k = position("o", floor((extent("n") - 5.0) / 2.0) + 1.0), position("k", 5.0)
    return {"y": greatest(take(x, 2.0 * o + k, "n"), "k")}


def test_what_others_follow_from_is_long_enough() -> None:
    op = Op(pooled, (Operand("x", "... n"),), (Operand("y", "... o"),))
    with known(op):
        drawn = [draw_of(each.case) for each in made(op)]
        assert {each.shape("y")[-1] for each in drawn} > {1, 2, 3}
    assert min(each.n for each in drawn) == 5
    assert len({each.rows for each in drawn}) > 3


def test_what_is_fixed_leaves_less_room_for_the_others() -> None:
    """A channel for each of many others is much to add up for one place."""
    op = Op(mixed, (Operand("x", "b c n"), Operand("w", "m c")), (Operand("y", "b m n"),), fixed={"c": 128, "m": 256})
    with known(op):
        drawn = [draw_of(each.case) for each in made(op)]
        assert max(each.work for each in drawn) <= MOST_WORK
    assert max(each.n for each in drawn) > 16


def mixed(x: Node, w: Node) -> Outputs:
    return {"y": dot(x, w, "c")}


def counted(x: Node, at: Node) -> Outputs:
    """The sum of what goes to each place: a length counts twice."""
    return {"y": dot(where(position("o", extent("n")) == at, 1.0, 0.0), x, "n")}


def test_a_length_that_counts_twice_is_no_longer_than_there_is_room_for() -> None:
    op = Op(counted, (Operand("x", "b n"), Operand("at", "n", dtype="int64", index="n")), (Operand("y", "b o"),))
    with known(op):
        drawn = [draw_of(each.case) for each in made(op)]
        assert max(each.work for each in drawn) <= MOST_WORK
    assert max(each.n for each in drawn) > 512
