"""Memory that tensors share, and weights of rank 2: given up where the failure does without them, else named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.core.base.case import Case, CaseError, Layout, Output, Tensor
from fuzz.core.base.feature import Feature
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.memory import distances, meets, overlapping, shift
from fuzz.core.base.validity import check_case
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.aliasing import aliased_as
from fuzz.core.generate.realise import realise
from fuzz.core.generate.variations import base_of, made, sized
from fuzz.explain.evidence.evidence import Evidence, probe, probe_all
from fuzz.explain.evidence.masking import unmask
from fuzz.explain.evidence.probes import ProbeMenu, changed, combined
from fuzz.explain.rule.rule import Atom, Trait
from fuzz.explain.rule.traits import case_traits
from fuzz.explain.shrink.reduction import SHARING, Choices
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.explain import look_into
from fuzz.explain.trial.trial import Family, Trials
from fuzz.tests.common.features import N
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import PACK, failing, mutant, target_of

_TURNS = range(12)
"""ways in which an output is laid over an input: before and after it, by one, a row or more, as dense or as strided."""


def _with_stack(case: Case, rows: int) -> Case:
    """With a weight of rank 2, whose rows differ."""
    n = case.inputs["weight"].layout.shape[0]
    bits = b"".join(a_case("rms_norm", ("weight",), (1, n), scale=1.0 + r).inputs["weight"].bits for r in range(rows))
    return replace(case, inputs={**case.inputs, "weight": Tensor("f32", dense((rows, n)), bits)})


def _over(turn: int, layout: str = "dense", grid: tuple[int, ...] = (3, 7)) -> Case:
    case = (
        a_case("rms_norm", ("weight",), grid)
        if layout == "padded"
        else a_case("rms_norm", ("weight",), grid, layout=dense)
    )
    return aliased_as(case, ("y", "over", "x"), turn)


def _twice(grid: tuple[int, ...] = (3, 7)) -> Case:
    return aliased_as(a_case("fused_add_rms_norm", (), grid), ("residual", "is", "x"), 0)


def _stack(rows: int = 3, grid: tuple[int, ...] = (3, 7)) -> Case:
    return _with_stack(a_case("rms_norm", ("weight",), grid), rows)


def _shrunk(kernel: Kernel, found: Case) -> Case:
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found)
        return shrink(Trials(pool, target, Family.of(judgement)), case)


def _learned(kernel: Kernel, found: Case) -> str:
    """The rule of a failure and of what becomes of it when one thing is changed."""
    target = target_of(kernel, "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found)
        trials, evidence = Trials(pool, target, Family.of(judgement)), Evidence()
        probe(trials, [case], evidence)
        probe_all(trials, changed(base_of(case), target), evidence)
        unmask(trials, evidence)
    return str(evidence.induced().learned.rule)


def _planted(base: str, *edits: tuple[str, str]) -> Kernel:
    return replace(PACK.kernel(base), name="planted", edits=edits)


_FROM_THREE = _planted("weighted", ("y *= scale_of(", "if (r->n > 2) y *= 2;\n            y *= scale_of("))
_ADD_FROM_THREE = _planted("add-generic", ("real y = sums[i] * rstd;", "real y = sums[i] * rstd * (r->n > 2 ? 2 : 1);"))
_OF_RANK_2 = _planted("weighted", ("y *= scale_of(", "y *= (call->weight.rank == 2 ? 2 : 1) * scale_of("))
_DSUM_LEFT_OUT = (".dsum = call->dsum,", ".dsum = call->dsum.data == call->x.data ? (kf_tensor){0} : call->dsum,")


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        *((_FROM_THREE, _over(turn)) for turn in (0, 1, 2, 6)),
        (_ADD_FROM_THREE, _twice()),
        (_FROM_THREE, _stack(3)),
        (_FROM_THREE, _stack(1)),
        (_FROM_THREE, _stack(4, (2, 4, 7))),
    ],
)
def test_what_the_failure_does_without_is_given_up(kernel: Kernel, found: Case) -> None:
    assert not found.apart or len(found.inputs["weight"].layout.shape) == 2
    small = _shrunk(kernel, found)
    assert small.inputs["x"].layout.shape == (1, 3)
    assert small.apart
    assert all(tensor.alias is None for tensor in small.tensors.values())
    assert "weight" not in small.inputs or small.inputs["weight"].layout.shape == (3,)


@pytest.mark.some(1)
@pytest.mark.parametrize("turn", [0, 1, 6])
def test_an_overlap_that_is_needed_is_kept_by_one_element(turn: int) -> None:
    small = _shrunk(mutant("weighted-overlap-forgotten"), _over(turn, grid=(2, 9)))
    source, output = small.inputs["x"].layout, small.outputs["y"].layout
    assert list(small.meetings()) == [("y", "x", "overlap")]
    assert shift(source, output) == 1
    assert small.inputs["x"].layout.shape == (1, 2)


def test_one_buffer_for_two_inputs_is_kept_where_it_is_needed() -> None:
    small = _shrunk(mutant("add-same-buffer-added-once"), _twice())
    assert small.inputs["residual"].alias == "x"
    assert small.inputs["x"].layout.shape == (1, 1)


@pytest.mark.whole
def test_rows_of_weights_are_kept_where_they_are_needed() -> None:
    small = _shrunk(mutant("weighted-first-row-of-weights"), _stack(4, (2, 4, 7)))
    assert small.inputs["x"].layout.shape == (2, 1)
    assert small.inputs["weight"].layout.shape == (2, 1)
    small = _shrunk(_OF_RANK_2, _stack(3))
    assert small.inputs["x"].layout.shape == small.inputs["weight"].layout.shape == (1, 1)


DSUM_IS_X = (
    _planted("add-backward-generic", _DSUM_LEFT_OUT),
    aliased_as(a_case("fused_add_rms_norm_backward", ("dsum",), (3, 7)), ("dsum", "is", "x"), 0),
)
RANK_2 = (_OF_RANK_2, _stack(3))
FORGOTTEN = (mutant("weighted-overlap-forgotten"), _over(0))


@pytest.mark.whole
def test_a_weight_of_rank_2_is_named() -> None:
    assert _learned(*RANK_2) == "rank of weight = 2"


@pytest.mark.whole
def test_one_buffer_for_two_inputs_of_a_gradient_is_named() -> None:
    assert _learned(*DSUM_IS_X) == "dsum and x are one buffer"


@pytest.mark.whole
def test_an_overlap_that_a_kernel_forgets_is_told_by_what_it_reads_later() -> None:
    assert _learned(*FORGOTTEN) == "y overlaps x in part, over elements that come later"


_ALIASED = [
    *(_over(turn, layout, grid) for turn in _TURNS for layout in ("dense", "padded") for grid in ((3, 7), (2, 2, 5))),
    _twice(), _stack(3), _stack(1), _stack(4, (2, 4, 7)),
]  # fmt: skip


@pytest.mark.some(6)
@pytest.mark.parametrize("case", _ALIASED)
def test_every_choice_of_a_reduction_gives_a_sound_case(case: Case) -> None:
    choices = Choices(case)
    assert choices.apply(choices.whole).digest == case.digest
    kernel = PACK.kernel("weighted" if case.op == "rms_norm" else "add-generic")
    built = 0
    for place, (label, most) in enumerate(choices.ranges.items()):
        for value in range(most + 1 if label[0] in (*SHARING, "axes", "rows", "n") else 1):
            vector = list(choices.whole)
            vector[place] = value
            try:
                smaller = choices.apply(tuple(vector))
            except CaseError:
                continue
            check_case(smaller)
            assert kernel.capability.accepts(smaller)
            built += 1
    assert built >= len(choices.ranges)
    assert choices.apply((0,) * len(choices.ranges)).apart


# What has gaps or many axes is built with fewer of them, where a distance may lead out of it.
@pytest.mark.parametrize("case", [*(_over(turn) for turn in _TURNS), _twice(), _stack(3), _stack(1)])
def test_a_variation_shares_memory_as_its_case_does(case: Case) -> None:
    built = made(base_of(case))
    assert {name: t.alias for name, t in built.inputs.items()} == {name: t.alias for name, t in case.inputs.items()}
    assert {name: len(t.layout.shape) for name, t in built.inputs.items() if name == "weight"} == {
        name: len(t.layout.shape) for name, t in case.inputs.items() if name == "weight"
    }
    assert {(name, other) for name, other, _ in built.meetings()} == {
        (name, other) for name, other, _ in case.meetings()
    }


def test_a_variation_over_part_of_an_input_keeps_its_own_strides_with_other_sizes() -> None:
    """Dense where the input is not: a kernel that then copies the input fails, or passes, as it does nowhere else."""
    strides = Feature("strides", "y", operand="x")
    for turn, told in ((0, "same"), (6, "differ")):
        base = base_of(_over(turn, "padded"))
        for draw in (base, replace(base, n=9), sized(base, 5)):
            assert case_traits(made(draw))[strides] == told
    able = target_of(PACK.kernel("weighted"), "O2")
    dense_ones = [draw for draw in changed(base_of(_over(0, "padded")), able) if draw.part("y").dense]
    assert "differ" in {case_traits(made(draw))[strides] for draw in dense_ones}


def test_probes_around_an_exception_have_mostly_what_it_has() -> None:
    """A search may come to one case of its kind among thousands."""
    target, rare = target_of(PACK.kernel("weighted"), "O2"), [
        Feature("strides", "y", operand="x"), Feature("in part", "y", operand="x"),
    ]  # fmt: skip
    case, evidence = _over(6, "padded"), Evidence()
    with WorkerPool([target]) as pool:
        look_into(Trials(pool, target, Family("values")), case, 0, evidence)
    alike = [each for each in evidence.traits if all(each.get(name) == case_traits(case)[name] for name in rare)]
    assert len(alike) >= 20
    assert all(len({each.get(name) for each in alike}) > 1 for name in (N, Feature("magnitude", "x", "largest")))


def test_strides_are_told_of_an_output_over_part_of_an_input_but_not_of_one_in_place() -> None:
    strides = Feature("strides", "y", operand="x")
    assert case_traits(_over(0, "padded"))[strides] == "same"
    assert case_traits(_over(6, "padded"))[strides] == "differ"
    apart = a_case("rms_norm", ("weight",), (3, 7))
    source = apart.inputs["x"].layout
    in_place = replace(apart, outputs={**apart.outputs, "y": Output("f32", source, "x")})
    assert strides not in case_traits(in_place)


def test_strides_are_told_of_an_output_in_place_of_an_input_that_is_not_the_first() -> None:
    in_place = a_case("rms_norm_backward", (), (3, 7), layouts={"dy": dense}, alias={"dx": "dy"})
    assert case_traits(in_place)[Feature("strides", "dx", operand="x")] == "differ"


def test_it_is_told_whether_each_row_is_aligned() -> None:
    """The rows may be where the first one is not."""

    def aligned(rows: int, pitch: int, offset: int) -> list[Trait]:
        def at(shape: tuple[int, ...]) -> Layout:
            return Layout(shape, (pitch, 1), "before", offset)

        traits = case_traits(a_case("rms_norm", (), (rows, 3), layout=at))
        return [traits[Feature("address of rows", "x", operand=multiple)] for multiple in (8, 16)]

    assert aligned(2, 4, 0) == ["yes", "yes"]
    assert aligned(2, 5, 0) == ["no", "no"]
    assert aligned(2, 6, 0) == aligned(2, 4, 2) == ["yes", "no"]
    assert aligned(1, 5, 4) == ["yes", "yes"]


def test_only_common_elements_count_as_an_overlap() -> None:
    every_second = Layout((4,), (2,), "before", 4)
    between, on = (overlapping(every_second, every_second, distance)[1] for distance in (1, 2))
    assert not meets(every_second, between)
    assert meets(every_second, on)
    assert shift(every_second, on) == 2
    with pytest.raises(CaseError, match="exactly in place"):
        overlapping(every_second, every_second, 0)


def test_an_overlap_is_over_what_comes_later_in_the_order_of_rows() -> None:
    """One element further on in memory is the next of a row, or the same place of the next row where rows lie along
    the first axis; one element further back is then in a row before, and from a later column."""
    grid = Layout((2, 3), (3, 1), "before", 4)
    back, on = (overlapping(grid, grid, distance)[1] for distance in (-1, 1))
    assert [each.tolist() for each in distances(grid, on, 1)] == [[1] * 5 * 2, [0, 0, 1, 0, 0] * 2]
    assert {*distances(grid, back, 1)[0].tolist()} == {-1}
    assert {*distances(grid, on, 0)[0].tolist()} == {2, -3}
    assert {*distances(grid, back, 0)[0].tolist()} == {-2, 3}
    folded = Layout((3,), (0,), "before", 4)
    apart = Layout((3,), (2,), "before", 4)
    assert sorted(distances(folded, apart, 0)[0].tolist()) == [0, 2]


def test_tensors_of_which_the_elements_take_turns_have_spans_that_overlap() -> None:
    case = a_case("rms_norm", (), (1, 4), layout=lambda shape: Layout(shape, (8, 2), "before", 4))
    source = case.inputs["x"].layout
    traits = [
        case_traits(replace(case, outputs={"y": Output("f32", overlapping(source, source, distance)[1], "x")}))
        for distance in (1, 2, 8)
    ]
    assert [each[Feature("in part", "y", operand="x")] for each in traits] == ["no", "yes", "no"]
    assert [each[Feature("span", "x")] for each in traits] == ["yes", "yes", "no"]


def test_where_the_axis_of_rows_is_and_what_lies_between_their_neighbours_is_told() -> None:
    traits = [case_traits(a_case("rms_norm", (), (5, 3, 1), axis)) for axis in range(3)]
    assert [each[Feature("axis is first")] for each in traits] == ["yes", "no", "no"]
    assert [each[Feature("after the axis")] for each in traits] == [3, 1, 1]


def test_whether_the_last_axis_is_as_long_as_the_rows_is_told_where_it_is_another_one() -> None:
    traits = [case_traits(a_case("rms_norm", (), (4, 3, 4), axis)) for axis in range(3)]
    last = Feature("compared", "extent of the last axis", "=", "n")
    assert [each.get(last) for each in traits] == ["yes", "no", None]
    said = [str(Atom(last, "=", (word,), 1.0)) for word in ("yes", "no")]
    assert said == ["extent of the last axis = n", "extent of the last axis != n"]


@pytest.mark.parametrize(("kernel", "axes"), [("weighted", {0, 1, 2}), ("avx2", {2})])
def test_probes_have_their_rows_along_every_axis_that_a_kernel_takes(kernel: str, axes: set[int]) -> None:
    base, target = base_of(a_case("rms_norm", (), (2, 3, 4))), target_of(PACK.kernel(kernel))
    draws = combined(base, target, ProbeMenu([4], [5, 6]), 80, 1)
    assert {draw.axis for draw in draws if draw.rank == 3} == axes


@pytest.mark.parametrize("guard", ["before", "after"])
@pytest.mark.parametrize("distance", [-9, -1, 1, 5])
def test_an_input_moves_off_the_page_where_the_output_needs_the_room(guard: str, distance: int) -> None:
    layout = Layout((2, 3), (3, 1), "before" if guard == "before" else "after", 0)
    source, output = overlapping(layout, replace(layout, offset=40), distance)
    assert shift(source, output) == distance
    assert 0 in (source.offset, output.offset)


def test_long_rows_are_tried_in_every_dtype() -> None:
    """Rows of so many bytes may be divided otherwise than rows of so many elements."""
    target = target_of(PACK.kernel("weighted"), "O2")
    tried = {(draw.part("x").dtype, draw.n) for draw in changed(base_of(a_case("rms_norm", (), (2, 7))), target)}
    assert {(dtype, n) for dtype in target.kernel.able.dtypes for n in (1027, 4099)} <= tried


def test_an_output_that_the_failure_does_without_is_laid_over_an_input_too() -> None:
    base, target = base_of(a_case("fused_add_rms_norm", (), (2, 7))), target_of(PACK.kernel("add-generic"), "O2")
    menu = ProbeMenu([7], [5])
    for draws in (changed(base, target), combined(base, target, menu, 150, 1)):
        over = [draw.part("sum") for draw in draws if "sum" in {part.name for part in draw.parts}]
        assert {(part.alias, part.shift is not None) for part in over} >= {("x", True), ("residual", True)}


def test_rows_are_probed_along_another_axis_than_the_first() -> None:
    """A kernel that takes the first stride for that from row to row is right of rows along the first axis."""
    base, target = base_of(a_case("rms_norm", (), (2, 7))), target_of(PACK.kernel("generic"), "O2")
    for draws in (changed(base, target), combined(base, target, ProbeMenu([7], [5]), 150, 1)):
        assert any(draw.outer[0] == 1 < draw.outer[-1] for draw in draws if len(draw.outer) > 1)


def test_an_output_is_laid_over_an_input_that_the_failure_does_without_too() -> None:
    found = a_case("fused_add_rms_norm_backward", (), (2, 7))
    base, target = base_of(found), target_of(PACK.kernel("add-backward-generic"), "O2")
    for draws in (changed(base, target), combined(base, target, ProbeMenu([7], [5]), 150, 1)):
        over = [realise(draw).outputs.get("dresidual") for draw in draws]
        assert "dsum" in {output.alias for output in over if output is not None}
