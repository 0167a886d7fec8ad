"""Values that only hide a failure make no condition of its rule."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from fuzz.core.base.case import Case, Layout, Output, Tensor
from fuzz.core.base.draw import Frame
from fuzz.core.base.feature import Feature
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.menus import menus_of
from fuzz.core.generate.variations import base_of, made, ordinary, with_values
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.values import SIGN_FLIP
from fuzz.explain.evidence.evidence import Evidence, Masking, probe, probe_all
from fuzz.explain.evidence.masking import (
    Substitute,
    failing_ordinarily,
    ordinary_case,
    shown_in,
    shown_with,
    swamped,
    unmask,
)
from fuzz.explain.rule.rule import OF_NOTHING, Atom
from fuzz.explain.rule.traits import case_traits
from fuzz.explain.trial.trial import Family, Trials
from fuzz.tests.common.examples import first_cases, plain
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import TAIL_63, mutant, target_of, with_edits
from oracles.ops import OPS


def test_a_probe_that_ordinary_values_make_fail_counts_for_nothing() -> None:
    target = target_of(with_edits(TAIL_63), "O2")
    with WorkerPool([target]) as pool:
        trials, evidence = Trials(pool, target, Family("values")), Evidence()
        bases = [base_of(plain(n, eps=0.25)) for n in (63, 64, 127, 128, 191)]
        recipes = ("normal", "ones", "integers", "zeros")
        probe(trials, [made(with_values(base, recipe, 1)) for base in bases for recipe in recipes], evidence)
        assert evidence.failed == [True, True, True, False, *[False] * 4] * 2 + [True, True, True, False]
        unmask(trials, evidence)
    assert evidence.masking.only_hide
    assert evidence.masking.hidden == {3, 11, 19}
    assert evidence.induced().learned.exact
    assert not any(atom.trait.is_of_values for atom in evidence.induced().learned.rule.atoms)


def test_values_of_which_two_orders_have_one_sum_hide_a_broken_law() -> None:
    """Two numbers have one order, and equal ones the same sum in every order."""
    target = target_of(mutant("generic-order-by-sign"), "O2")
    with WorkerPool([target]) as pool:
        trials = Trials(pool, target, Family("law", LawCheck(SIGN_FLIP, 1)))
        cases = [made(with_values(base_of(plain(n, eps=0.25)), "ones", 1)) for n in (2, 40, *range(3, 13))]
        assert not any(judgement and trials.family.holds(judgement) for judgement in trials.judge(cases[:2]))
        assert failing_ordinarily(trials, cases) == [False, *[True] * 11], "one try shows it of some only"


@pytest.mark.whole
def test_what_ordinary_values_show_by_luck_plain_ones_show() -> None:
    """A mean that should be 0 where the row is not a multiple of 4 long: that of ordinary values nearly is."""
    added = "for (size_t i = 0; i < n; i++) y[i] = x[i] * rstd * (1 + (n % 4 ? wrong / n : 0) * 0x1p-18f);"
    edits = (
        ("float total = 0.0f;", "float total = 0.0f, wrong = 0.0f;\n    for (size_t i = 0; i < n; i++) wrong += x[i];"),
        ("for (size_t i = 0; i < n; i++) y[i] = x[i] * rstd;", added),
    )
    target = target_of(with_edits(*edits), "O2")
    with WorkerPool([target]) as pool:
        trials, evidence = Trials(pool, target, Family("values")), Evidence()
        bases = [base_of(plain(n, eps=0.25)) for n in range(5, 45)]
        recipes = ("ones", "normal", "normal", "normal")
        draws = [with_values(base, recipe, seed) for base in bases for seed, recipe in enumerate(recipes)]
        probe(trials, [made(draw) for draw in draws], evidence)
        lengths = [case.inputs["x"].layout.shape[1] for case in evidence.cases]
        should = {place for place, n in enumerate(lengths) if n % 4}
        failed = {place for place, fails in enumerate(evidence.failed) if fails}
        assert failed < should, "some pass by luck"
        unmask(trials, evidence)
    assert evidence.masking.clear
    assert evidence.masking.hidden == should - failed
    assert [str(atom) for atom in evidence.induced().learned.rule.atoms] == ["n mod 4 != 0"]


def test_what_a_mean_of_about_zero_hides_in_a_long_row_a_large_one_shows() -> None:
    case = replace(a_case("layer_norm", (), (1, 32_766), layout=dense), params={"eps": 0.25, "axis": 1})
    target = target_of(mutant("layer-norm-avx2-padding-counts"), "O2")
    with WorkerPool([target]) as pool:
        trials = Trials(pool, target, Family("values"))
        shown = [failing_ordinarily(trials, [case], clear=clear) for clear in ((), ("integers",), ("shifted",))]
    assert shown == [[False], [False], [True]]


@pytest.mark.whole
def test_of_all_that_passes_what_is_against_the_rule_is_tried_with_other_values() -> None:
    """All else passes with any values. In f32, where none hides anything, there would be no difference of dtypes."""

    def of(n: int, weight: str, scale: float = 1.0, eps: float = 0.25) -> Case:
        mixed = {"weight": weight}
        return a_case("rms_norm", ("weight",), (1, n), dtype="f16", mixed=mixed, layout=dense, scale=scale, eps=eps)

    target = target_of(mutant("weighted-reads-weight-as-x"), "O2")
    with WorkerPool([target]) as pool:
        trials, evidence = Trials(pool, target, Family("values")), Evidence()
        alike, wrong = [of(n, "f16") for n in range(1, 200)], [of(n, "f32") for n in range(1, 60)]
        probe(trials, [*alike, *wrong, *(of(2, "f32", 0.0, eps) for eps in (0.25, 0.5, 1.0))], evidence)
        assert evidence.failed == [False] * 199 + [True] * 59 + [False] * 3
        unmask(trials, evidence)
    assert evidence.masking.hidden == {258, 259, 260}
    assert re.fullmatch("dtype of weight( = f32| and that of x = differ)", str(evidence.induced().learned.rule))


def test_traits_keep_their_order_where_values_are_left_out() -> None:
    """The first of two traits that say the same is stated, whatever strings are hashed to in this process."""
    case = plain(7)
    evidence = Evidence([case], [case_traits(case)], [True], masking=Masking(only_hide=True))
    ((traits,), _) = evidence.tried([0])
    assert [*traits] == [name for name in case_traits(case) if not name.is_of_values]


@pytest.mark.some(1)
@pytest.mark.parametrize("family", [Family("values"), Family("memory", wide=True)])
def test_nan_is_tried_though_all_other_values_show_the_failure(family: Family) -> None:
    """A kernel that strays from its tensors with one shape has wrong values with another."""
    target = target_of(with_edits(TAIL_63), "O2")
    with WorkerPool([target]) as pool:
        trials, evidence = Trials(pool, target, family), Evidence()
        lengths = (*range(56, 82), *(64 * times + more for times in range(2, 11) for more in (-2, -1, 0)))
        probe(trials, [plain(n, eps=0.25) for n in lengths], evidence)
        assert evidence.failed == [n % 64 == 63 for n in lengths]
        assert evidence.induced().learned.exact
        unmask(trials, evidence)
        assert not evidence.masking.only_hide
        probe_all(trials, swamped(evidence), evidence)
        unmask(trials, evidence)
    hidden = range(len(lengths), len(evidence.failed))
    assert not any(evidence.failed[place] for place in hidden)
    assert evidence.masking.hidden == {*hidden} != set()
    assert evidence.induced().learned.exact


def test_many_rows_hide_that_the_last_is_left_out_unless_it_is_large() -> None:
    case = a_case("rms_norm_backward", ("dw",), (70_000, 1), layout=dense)
    target = target_of(mutant("backward-dw-loses-last-row"), "O2")
    with WorkerPool([target]) as pool:
        trials = Trials(pool, target, Family("values"))
        assert not trials.fails(case)
        assert failing_ordinarily(trials, [case]) == [True]


def test_what_one_output_shows_with_any_parameter_another_shows_with_a_large_one() -> None:
    """A row that is added once in place of twice is normalised to the same, but for eps."""

    def of(optional: tuple[str, ...], eps: float, scale: float = 1.0) -> Case:
        case = a_case("fused_add_rms_norm", optional, (1, 999), layout=dense, eps=eps, scale=scale)
        return replace(case, inputs={**case.inputs, "residual": replace(case.inputs["x"], alias="x")})

    hidden = of((), 2.0**-17, 1e6)
    target = target_of(mutant("add-same-buffer-added-once"), "O2")
    with WorkerPool([target]) as pool:
        trials, evidence = Trials(pool, target, Family("values")), Evidence()
        probe(trials, [of(("sum",), 2.0**-17), of((), 1.0), hidden], evidence)
        assert evidence.failed == [True, True, False]
        assert failing_ordinarily(trials, [hidden], params=shown_with(evidence)) == [True]


def test_what_fails_in_coarse_dtypes_only_is_tried_in_these() -> None:
    """In the finest dtype nothing is rounded that is stored as it is."""

    def of(dtype: str, scale: float = 1.0) -> Case:
        case = a_case("layer_norm", ("mean",), (2, 37), dtype=dtype, layout=dense, scale=scale)
        return replace(case, params={"eps": 0.25, "axis": 1})

    target = target_of(mutant("layer-norm-statistics-in-dtype-of-x"), "O2")
    with WorkerPool([target]) as pool:
        trials, evidence = Trials(pool, target, Family("values")), Evidence()
        probe(trials, [of("bf16"), of("f16"), of("bf16", 0.0), of("f32")], evidence)
        assert evidence.failed == [True, True, False, False]
        tried = [of("bf16", 0.0), of("f32")]
        assert failing_ordinarily(trials, tried, shown_in(evidence)) == [True, False]


def test_a_failure_that_needs_shared_memory_fails_with_ordinary_values_in_it() -> None:
    """Memory of their own for all elements would hide what is wrong with a stride of 0."""
    folded = "{ wrong = call->x.strides[0] == 0; return each_row(call, generic_row); }"
    edits = (
        ("static void generic_row", "static int wrong;\nstatic void generic_row"),
        ("{ return each_row(call, generic_row); }", folded),
        ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (wrong ? 1.5f : 1.0f);"),
    )
    x = Tensor("f32", Layout((3, 5), (0, 1)), np.array([[1, 2, np.nan, 3, 4]] * 3, np.float32).tobytes())
    case = Case("rms_norm", {"eps": 0.25, "axis": 1}, {"x": x}, {"y": Output("f32", Layout((3, 5), (5, 1)))})
    target = target_of(with_edits(*edits), "O2")
    with WorkerPool([target]) as pool:
        assert failing_ordinarily(Trials(pool, target, Family("values")), [case]) == [True]


@pytest.mark.parametrize("op", ["fused_add_rms_norm", "layer_norm_backward", "log_softmax_backward"])
def test_every_trait_of_values_is_known_for_one_and_no_other(op: str) -> None:
    for case in first_cases(op, 3, count=3):
        own, others = case_traits(case), case_traits(case, values=False)
        assert all(trait.is_of_values for trait in own if trait not in others), op
        named = {trait for trait in others if trait.is_of_values}
        assert {trait.text for trait in named} <= {each.name for each in OPS[op].parameters}


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ["fused_add_rms_norm", "layer_norm_backward", "log_softmax_backward"])
def test_ordinary_values_are_what_a_search_draws_first(op: str) -> None:
    for case in first_cases(op, 3, count=3):
        draw = ordinary(base_of(case), 1)
        recipes = {part.name: part.recipe for part in draw.parts if OPS[op].is_input(part.name)}
        assert all(recipe in menus_of(OPS[op])[name].names for name, recipe in recipes.items())
        assert {draw.params[each.name] for each in OPS[op].parameters if each.name in draw.params} <= {
            each.values[0] for each in OPS[op].parameters
        }


def test_a_parameter_that_is_nothing_beside_a_huge_row_has_traits_too() -> None:
    """eps over the mean square underflows."""
    layout, eps = Layout((1, 4), (4, 1)), 2.0**-126
    x = Tensor("f64", layout, np.full(4, 1e153).tobytes())
    case = Case("rms_norm", {"eps": eps, "axis": 1}, {"x": x}, {"y": Output("f64", layout)})
    assert case_traits(case)[Feature("in ulp", "eps", operand="mean square")] == OF_NOTHING


def test_a_parameter_is_measured_by_what_the_formula_adds_it_to() -> None:
    """The variance of a row of equal elements is 0, whatever its mean square."""
    alone = a_case("layer_norm", (), (2, 4), dtype="f16", layout=dense)
    x = replace(alone.inputs["x"], bits=np.full(8, 3.0, np.float16).tobytes())
    traits = case_traits(replace(alone, params={"eps": float(np.float32(1e-3)), "axis": 1}, inputs={"x": x}))
    change = Feature("change in ulp", "eps", "x", "var")
    assert float(traits[change]) > -10
    assert Feature("change in ulp", "eps", "x", "mean square") not in traits
    assert str(Atom(change, ">=", (1,), 1.0)) == "rounding eps to the dtype of x changes it by >= 2^1 ulp of the var"


def test_ordinary_values_stand_in_memory_of_their_own_in_the_shape_of_the_case() -> None:
    """Elements that share memory are equal, and a weight for each of two rows is none of rows in another order."""
    cases = [case for case in first_cases("rms_norm", 5, count=400) if len(Frame(case).outer) == 2]
    folded = [case for case in cases if 0 in case.inputs["x"].layout.strides]
    for case in (cases[0], folded[0]):
        found = ordinary_case(case, 1, "", Substitute())
        assert found is not None
        assert {name: each.layout.shape for name, each in found.tensors.items()} == {
            name: each.layout.shape for name, each in case.tensors.items()
        }
        assert found.params["axis"] == case.params["axis"]
        assert 0 not in found.inputs["x"].layout.strides


def test_what_a_law_changes_is_kept_and_not_swamped() -> None:
    """A kernel that chooses by eps breaks the law of scales with its own eps; values of 1 beside one of 100 show
    nothing of it."""
    case = plain(64, 1, eps=100.0)
    found = ordinary_case(case, 1, "", Substitute(own=True))
    assert found is not None
    assert found.params["eps"] == 100.0
    assert float(case_traits(found)[Feature("magnitude", "x", "largest")]) > 10.0
    usual = ordinary_case(case, 1, "", Substitute())
    assert usual is not None
    assert usual.params["eps"] < 1e-3
