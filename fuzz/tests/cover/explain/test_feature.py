"""A feature is the same after it was kept or sent, and each that is read off a case has a name of its own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from fuzz import Capabilities
from fuzz.core.base.case import THREADS, Case
from fuzz.core.base.feature import KINDS, Feature
from fuzz.core.generate.variations import base_of, made
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.slices import BATCH_SUBSET
from fuzz.explain.evidence.refutation import ARRANGED, with_arranged
from fuzz.explain.rule.rule import Atom, Rule
from fuzz.explain.rule.traits import case_traits, traits_of, twin_traits
from fuzz.findings.codec import rule_from_text, rule_to_text
from fuzz.tests.common.examples import first_cases
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import GENERIC, target_of

_OPS = ("fused_add_rms_norm", "layer_norm_backward", "softmax")


def _seen(op: str) -> set[Feature]:
    """What is read off the first cases of a search."""
    cases, check = first_cases(op, 3, count=60), LawCheck(BATCH_SUBSET, 1)
    twins = [twin_traits(case, check.twin(case)) for case in cases if check.law.applies(case)]
    return {each for traits in (*map(case_traits, cases), *twins) for each in traits}


@pytest.mark.some(1)
@pytest.mark.parametrize("op", _OPS)
def test_a_feature_is_the_same_after_it_was_kept(op: str) -> None:
    for each in _seen(op):
        rule = Rule((Atom(each, "=", ("yes",), each.cost),))
        assert rule_from_text(rule_to_text(rule)) == rule


@pytest.mark.some(1)
@pytest.mark.parametrize("op", _OPS)
def test_no_two_features_of_an_op_have_one_name(op: str) -> None:
    seen = _seen(op)
    assert len({each.text for each in seen}) == len(seen) > 100


def test_what_names_no_kind_is_refused() -> None:
    kept = rule_to_text(Rule((Atom(Feature("extent", "n"), "=", (3,), 1.0),)))
    assert rule_from_text(kept) is not None
    with pytest.raises(ValueError, match="Invalid enum value 'n mod 8'"):
        rule_from_text(kept.replace('"extent"', '"n mod 8"'))


def test_every_sentence_has_its_opposite() -> None:
    """A feature whose answer is yes or no is a sentence in both cases."""
    for kind, row in KINDS.items():
        assert bool(row.yes) == bool(row.no) or kind in ("of two", "remainder of two"), kind


def test_of_a_kernel_that_takes_contiguous_tensors_alone_no_rule_is_about_strides() -> None:
    """Those along extents of 1 may be anything, and would stand for the extents."""
    [case, *_] = first_cases("rms_norm", 3, count=5)
    dense, strided = (replace(GENERIC, capabilities=Capabilities(strides=strides)) for strides in ("contiguous", "any"))
    seen = [{each.kind for each in traits_of(case, target_of(kernel, "O2"))} for kernel in (dense, strided)]
    assert {"step", "rows of"} & seen[1] - seen[0]
    assert not {"step", "rows of", "layout", "strides"} & seen[0]


def _holding(case: Case) -> set[str]:
    """What the features say that hold for a case."""
    return {str(Atom(each, "=", ("yes",), each.cost)) for each, trait in case_traits(case).items() if trait == "yes"}


def _filled(**values: ArrayLike) -> Case:
    arrays = {name: np.array(each, np.float32) for name, each in values.items()}
    case = a_case("rms_norm", ("weight",), arrays["x"].shape, layout=dense)
    bits = {name: each.tobytes() for name, each in arrays.items()}
    return replace(case, inputs={name: replace(case.inputs[name], bits=bits[name]) for name in values})


def test_how_values_are_arranged_is_read_off() -> None:
    """A kernel that is wrong where a row is sorted, or all is negative, had no cause."""
    holding = _holding(_filled(x=[[-8, -5, -2], [-1, -8, -1]], weight=[1, 2, 3]))
    assert {"x is negative everywhere", "x is a whole number everywhere", "weight is positive everywhere"} <= holding
    assert {"a row of x is in ascending order", "the first row of x is in ascending order"} <= holding
    assert {
        "the first row of x is largest in magnitude at its first element",
        "weight is without equal elements",
    } <= holding
    assert not {"x is without equal elements", "x is the same in all rows"} & holding
    holding = _holding(_filled(x=[[0, 3, -4], [2, 2, 2], [3, 2, 1]], weight=[1, 1, 1]))
    assert {"a row of x is in descending order", "the first row of x is zero in part"} <= holding
    assert {"a row of x is the same number other than 0 throughout"} <= holding
    assert "the first row of x is larger in magnitude at its last element than before" in holding
    assert not {"the first row of x is in descending order", "x is negative everywhere"} & holding
    holding = _holding(_filled(x=[[0.0, math.inf, math.inf, 0.0]] * 2, weight=[1.0] * 4))
    assert "x is the same in all rows" in holding
    assert not {"x is a whole number everywhere", "a row of x is in ascending order"} & holding


_SHOWN = {
    "ascending": "a row of x is in ascending order",
    "descending": "a row of x is in descending order",
    "negative": "x is negative everywhere",
    "positive": "x is positive everywhere",
    "whole": "x is a whole number everywhere",
    "level": "a row of x is the same number other than 0 throughout",
    "alike": "x is the same in all rows",
    "zeros between": "a row of x is zero in part",
    "first": "a row of x is largest in magnitude at its first element",
}


@pytest.mark.parametrize("way", ARRANGED)
def test_values_are_arranged_as_is_said(way: str) -> None:
    base = base_of(_filled(x=[[1, 3, 2, 4, 9, 7]] * 3, weight=[1] * 6))
    holding = _holding(made(with_arranged(base, ARRANGED[way], 1)))
    assert way not in _SHOWN or _SHOWN[way] in holding
    if way != "whole":
        is_repeating = way in ("twice each", "level", "alike", "zeros between")
        assert ("x is without equal elements" not in holding) == is_repeating


def test_values_that_are_all_nan_have_no_magnitude() -> None:
    """NumPy warned of them, and a warning is an error in tests."""
    said = {each.text for each in case_traits(_filled(x=[[math.nan] * 3] * 2, weight=[1.0] * 3))}
    assert "a NaN in x" in said
    assert "largest magnitude of x / that of weight" not in said


def test_how_far_extents_lie_apart_and_whether_there_are_several_threads_is_read_off() -> None:
    case = _filled(x=[[1, 3, 2, 4, 9, 7]] * 3, weight=[1] * 6)
    traits = {each.text: trait for each, trait in case_traits(case).items()}
    assert traits["n / rows"] == 2
    assert traits["threads"] == "no"
    several = replace(case, params={**case.params, THREADS: 2})
    assert {each.text: trait for each, trait in case_traits(several).items()}["threads"] == "yes"


def test_how_far_magnitudes_of_inputs_and_of_rows_lie_apart_is_read_off() -> None:
    """A kernel that is wrong where a gain is small beside its input had no cause."""
    case = _filled(x=[[0.5, -4, 0, 1], [0.0, 8, 2, 2], [1.0, 1, 1, -2]], weight=[0.25, -0.5, 0.125, 0.25])
    traits = {each.text: trait for each, trait in case_traits(case).items()}
    assert traits["largest magnitude of x / that of weight"] == 16
    assert traits["largest magnitude of x / that of its median row"] == 2
    assert traits["largest magnitude of x / that of its smallest row"] == 4
