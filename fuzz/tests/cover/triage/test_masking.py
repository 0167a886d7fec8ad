"""Values that only hide a failure make no condition of its rule."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz.base.case import Case, Layout, Output, Tensor
from fuzz.base.draw import Frame
from fuzz.execute.pool import WorkerPool
from fuzz.generate.menus import menus_of
from fuzz.tests.common.examples import first_cases, plain
from fuzz.tests.common.hunting import TAIL_63, target_of, with_edits
from fuzz.triage.evidence import Evidence, probe
from fuzz.triage.family import Family
from fuzz.triage.masking import _ordinary, unmask
from fuzz.triage.rule import OF_NOTHING
from fuzz.triage.traits import case_traits
from fuzz.triage.trial import Trials
from fuzz.triage.values import is_of_values
from fuzz.triage.variations import base_of, made, ordinary, with_values
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
    assert not any(is_of_values(atom.trait) for atom in evidence.induced().learned.rule.atoms)


@pytest.mark.parametrize("op", ["fused_add_rms_norm", "layer_norm_backward", "log_softmax_backward"])
def test_every_trait_of_values_is_known_for_one_and_no_other(op: str) -> None:
    for case in first_cases(op, 3, count=3):
        own, others = case_traits(case), case_traits(case, values=False)
        assert all(is_of_values(trait) for trait in own if trait not in others), op
        named = {trait for trait in others if is_of_values(trait)}
        assert named <= {each.name for each in OPS[op].parameters}


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
    assert case_traits(case)["log2 of eps in ulp of the mean square"] == OF_NOTHING


def test_ordinary_values_stand_in_memory_of_their_own_in_the_shape_of_the_case() -> None:
    """Elements that share memory are equal, and a weight for each of two rows is none of rows in another order."""
    cases = [case for case in first_cases("rms_norm", 5, count=400) if len(Frame(case).outer) == 2]
    folded = [case for case in cases if 0 in case.inputs["x"].layout.strides]
    for case in (cases[0], folded[0]):
        found = _ordinary(case, 1, "")
        assert found is not None
        assert {name: each.layout.shape for name, each in found.tensors.items()} == {
            name: each.layout.shape for name, each in case.tensors.items()
        }
        assert found.params["axis"] == case.params["axis"]
        assert 0 not in found.inputs["x"].layout.strides
