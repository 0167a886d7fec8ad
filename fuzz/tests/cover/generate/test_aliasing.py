"""Cases whose tensors share memory: what is drawn is what its label says, and somebody is there for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.base.capability import Capabilities, Capability
from fuzz.base.case import Case
from fuzz.base.feature import Answer, Feature
from fuzz.base.kernel import capabilities_of
from fuzz.base.stream import Dice, Stream
from fuzz.generate.aliasing import aliased, aliased_as, memory_labels
from fuzz.tests.common.examples import each_op, searched
from fuzz.tests.common.handmade import a_case, dense
from fuzz.tests.common.hunting import PACK
from oracles.ops import OPS

KERNELS = PACK.kernels
EVERY_OPTION = ("weight", "rstd", "sum", "dsum", "dresidual", "dw")

MEMORY = Feature("memory")


def _capability(op: str, *, overlap: bool = True, outside: str = "undefined", shares_memory: bool = True) -> Capability:
    able = Capabilities(
        strides="any",
        aliases=OPS[op].aliases,
        overlap=OPS[op].aliases if overlap else (),
        takes=EVERY_OPTION,
        outside=outside,  # type: ignore[arg-type]
    )
    return Capability(op, able, shares_memory)


def _plain(op: str, eps: float) -> Case:
    there = tuple(operand.name for operand in OPS[op].operands if operand.optional)
    return a_case(op, there, layout=dense, eps=eps)


def _tied(op: str, capability: Capability, count: int = 300) -> list[Case]:
    cases = [_plain(op, 2.0**-k) for k in range(1, 50)]
    cases = [
        a_case(op, EVERY_OPTION, (3, n), layout=dense, eps=case.params["eps"]) for n in range(2, 15) for case in cases
    ]
    found = [(case, aliased(case, capability, Dice(Stream(seed)))) for seed, case in enumerate(cases[:count])]
    return [after for before, after in found if after is not before]


def _parts(label: Answer) -> tuple[str, str, str]:
    assert isinstance(label, tuple)
    one, how, other = map(str, label)
    return one, how, other


@pytest.mark.some(2)
@each_op
def test_an_overlap_is_partial_and_outputs_never_meet(op: str) -> None:
    tied = _tied(op, _capability(op))
    assert len(tied) > 0.5 * 300
    for case in tied:
        ((kind, label),) = case.origin.labels
        one, how, other = _parts(label)
        assert kind == MEMORY
        assert not case.apart
        if how == "over":
            assert (one, other, "overlap") in case.meetings()
            assert "same" not in {relation for name, _, relation in case.meetings() if name == one}
        else:
            assert how == "is"
            assert case.inputs[one].alias == other
            assert case.inputs[one].bits == case.inputs[other].bits
            assert case.structured, "rounding errors of equal numbers are not independent"
        assert case == replace(case), "checked once more"
    assert {case.origin.labels[0][1] for case in tied} == set(memory_labels(_capability(op)))


@pytest.mark.some(2)
@each_op
def test_the_dice_decide(op: str) -> None:
    first, second = _tied(op, _capability(op), 80), _tied(op, _capability(op), 80)
    assert first
    assert [case.digest for case in first] == [case.digest for case in second]


def test_nothing_is_tied_that_nobody_is_there_for() -> None:
    assert _tied("rms_norm", _capability("rms_norm", overlap=False)) == []
    assert _tied("rms_norm", _capability("rms_norm", overlap=False, outside="rejects"))
    assert _tied("rms_norm", _capability("rms_norm", shares_memory=False, outside="rejects")) == []
    assert {
        case.origin.labels for case in _tied("fused_add_rms_norm", _capability("fused_add_rms_norm", overlap=False))
    } == {((MEMORY, ("residual", "is", "x")),)}


@each_op
def test_every_way_can_be_asked_for(op: str) -> None:
    """In 12 turns overlaps go both ways, by one element, by a row and by some number, in the same strides and not."""
    for label in memory_labels(_capability(op)):
        tied = [aliased_as(_plain(op, 1.0), label, turn) for turn in range(12)]
        assert {case.origin.labels for case in tied} == {((MEMORY, label),)}
        one, how, other = _parts(label)
        if how == "over":
            shifts = {case.outputs[one].layout.place[0] - case.inputs[other].layout.place[0] for case in tied}
            assert {-37, -1, 1, 37} < shifts


def test_what_is_too_small_stays_as_it_is() -> None:
    case = a_case("rms_norm", grid=(1, 1), layout=dense)
    assert aliased_as(case, ("y", "over", "x"), 0) is case
    assert aliased_as(case, ("residual", "is", "x"), 0) is case


@pytest.mark.some(2)
@each_op
def test_a_search_ties_cases_that_some_kernel_is_given(op: str) -> None:
    kernels = [kernel for kernel in KERNELS if kernel.op == op]
    capabilities = capabilities_of(kernels, op)
    wanted = {label for capability in capabilities for label in memory_labels(capability)}
    for case in (case for case in searched(op, 3, kernels) if not case.apart):
        wanted -= {value for _, value in case.origin.labels}
        if not wanted:
            break
        assert any(capability.is_dispatched(case) for capability in capabilities)
