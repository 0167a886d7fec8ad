"""A feature is the same after it was kept or sent, and each that is read off a case has a name of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz import Capabilities
from fuzz.core.base.feature import KINDS, Feature
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.slices import BATCH_SUBSET
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


def test_how_far_magnitudes_of_inputs_and_of_rows_lie_apart_is_read_off() -> None:
    """A kernel that is wrong where a gain is small beside its input had no cause."""
    case = a_case("rms_norm", ("weight",), (3, 4), layout=dense)
    values = {"x": [[0.5, -4, 0, 1], [0, 8, 2, 2], [1, 1, 1, -2]], "weight": [0.25, -0.5, 0.125, 0.25]}
    bits = {name: np.array(each, np.float32).tobytes() for name, each in values.items()}
    inputs = {name: replace(tensor, bits=bits[name]) for name, tensor in case.inputs.items()}
    traits = {each.text: trait for each, trait in case_traits(replace(case, inputs=inputs)).items()}
    assert traits["largest magnitude of x / that of weight"] == 16
    assert traits["largest magnitude of x / that of its median row"] == 2
    assert traits["largest magnitude of x / that of its smallest row"] == 4
