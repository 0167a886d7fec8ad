"""Tensors that share memory: the same buffer twice, outputs that overlap an input in part or lie beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz.core.base.case import Case, CaseError, Layout, Output, Tensor, contiguous
from fuzz.core.base.outcome import Damage, Status, Unwritten
from fuzz.tests.common.planted import Run, a_case, values

NATIVE = pytest.mark.parametrize("place", ["native"], indirect=True)
SHIFTS = (-12, -11, -5, -1, 1, 5, 11, 12)
BACKWARDS = """
    const int later = (char *)c->y.data > (char *)c->x.data;
    for (int64_t k = 0; k < rows * n; k++) {
        const int64_t at = later ? rows * n - 1 - k : k;
        ((float *)c->y.data)[at] = ((float *)c->x.data)[at];
    }
"""
"""a copy in the order that memmove picks."""


def shifted(shift: int, guard: str = "after") -> Case:
    """y lies `shift` elements after x."""
    x = Layout((3, 4), (4, 1), "after" if guard == "after" else "before", 12)
    y = replace(x, offset=12 - shift if guard == "after" else 12 + shift)
    return a_case(x, y, alias="x")


@pytest.mark.parametrize("guard", ["after", "before"])
def test_an_output_may_overlap_an_input_in_part(run: Run, guard: str) -> None:
    cases = [shifted(shift, guard) for shift in SHIFTS]
    right = run(BACKWARDS, *cases)
    wrong = run("copy(c);", *cases)
    for shift, case, good, bad in zip(SHIFTS, cases, right, wrong, strict=True):
        assert (good.status, good.damage, good.unwritten) == (Status.RAN, (), ())
        assert good.outputs["y"] == case.inputs["x"].bits
        overlaps = list(case.meetings()) == [("y", "x", "overlap")]
        assert overlaps == (abs(shift) < 12)
        assert (bad.outputs["y"] != case.inputs["x"].bits) == (0 < shift < 12)


@NATIVE
def test_what_of_an_overlapped_input_is_not_output_must_stay(run: Run) -> None:
    case = shifted(2)
    (outcome,) = run(BACKWARDS + "((int32_t *)c->x.data)[1] ^= -1;", case)
    assert outcome.damage == (Damage("x", "input", 0, 4, "inside", 4, 1),)
    (outcome,) = run(BACKWARDS + "((float *)c->y.data)[12] = -1;", case)
    (damage,) = outcome.damage
    assert (damage.tensor, damage.kind, damage.byte, damage.where, damage.row) == ("x", "gap", 2 * 4, "after", 2)


@NATIVE
def test_an_overlapping_output_left_unwritten_is_counted(run: Run) -> None:
    """The two elements beyond x still hold poison; those in x cannot be told from written ones."""
    (outcome,) = run("", shifted(2))
    assert outcome.unwritten == (Unwritten("y", 10, 2),)


@NATIVE
def test_rejecting_an_overlap_after_writing_is_damage(run: Run) -> None:
    (outcome,) = run("((float *)c->y.data)[11] = 1; return KF_REJECTED;", shifted(2))
    assert outcome.damage == (Damage("y", "output", 2, 44, "inside", 4, 3),)


@NATIVE
def test_two_inputs_may_be_one_buffer(run: Run) -> None:
    case = _shared()
    (outcome,) = run("copy(c); *row(&c->y, 0) = (float)(c->x.data == c->weight.data);", case)
    assert np.frombuffer(outcome.outputs["y"], "<f4")[0] == 1
    assert outcome.damage == ()
    (outcome,) = run("copy(c); ((float *)c->weight.data)[2] = 0;", case)
    assert [(damage.tensor, damage.kind) for damage in outcome.damage] == [("x", "input")]


def _shared() -> Case:
    x = Tensor("f32", contiguous((3, 4)), values((3, 4)).tobytes())
    inputs = {"x": x, "weight": replace(x, alias="x")}
    return Case("rms_norm", {"axis": 1, "eps": 1e-5}, inputs, {"y": Output("f32", contiguous((3, 4)))})


def test_a_shared_buffer_meets_every_input_that_it_is() -> None:
    case = _shared()
    in_place = replace(case, outputs={"y": Output("f32", contiguous((3, 4)), "weight")})
    assert sorted(in_place.meetings()) == [("y", "weight", "same"), ("y", "x", "same")]
    assert (case.apart, in_place.apart, a_case(alias="x").apart, shifted(1).apart) == (False, False, True, False)
    assert case.digest != replace(case, inputs={**case.inputs, "weight": case.inputs["x"]}).digest


def test_memory_that_contradicts_itself_is_no_case() -> None:
    case, x = _shared(), _shared().inputs["x"]
    other = replace(case.inputs["weight"], bits=bytes(48))
    for inputs in ({"x": x, "weight": other}, {"x": replace(x, alias="weight"), "weight": x}):
        with pytest.raises(CaseError, match="alias"):
            replace(case, inputs=inputs)
    y = Output("f32", contiguous((3, 4)), "x")
    with pytest.raises(CaseError, match=r"outputs\.rstd: shares memory with outputs\.y"):
        replace(case, outputs={"y": y, "rstd": y})
    with pytest.raises(CaseError, match="guard"):
        a_case(y=contiguous((3, 4), "before"), alias="x")
