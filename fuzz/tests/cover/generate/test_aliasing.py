"""Cases whose tensors share memory: what is drawn is what its label says, and somebody is there for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import filterfalse, islice

import pytest

from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.feature import Answer, Feature
from fuzz.core.base.kernel import capabilities_of
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.aliasing import aliased, aliased_as, memory_labels
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.realise import realise
from fuzz.core.generate.sketch import Sketch, free_parameters
from fuzz.tests.common.examples import EACH_OP, plain, searched
from fuzz.tests.common.hunting import PACK
from oracles.ops import OPS
from oracles.tests.common.whole import quarter

KERNELS = PACK.kernels

MEMORY = Feature("memory")


def _capability(op: str, *, overlap: bool = True, outside: str = "undefined", shares_memory: bool = True) -> Capability:
    able = Capabilities(
        strides="any",
        aliases=OPS[op].aliases,
        overlap=OPS[op].aliases if overlap else (),
        takes=OPS[op].optional,
        outside=outside,  # type: ignore[arg-type]
    )
    return Capability(op, able, shares_memory)


def _can_tie(op: str) -> bool:
    """Whether two of its tensors can share memory."""
    return any(memory_labels(_capability(op)))


ties = pytest.mark.parametrize("op", [*filter(_can_tie, EACH_OP)])


def _plain(op: str, n: int = 37, number: int = 0) -> Case:
    """All tensors, contiguous, each in memory of its own."""
    able = Capabilities(takes=OPS[op].optional, needs=OPS[op].optional)
    rank = max(2, len(OPS[op].inner))
    capability = Capability(op, able)
    parameters = {each.name: each.values[number % len(each.values)] for each in free_parameters(capability)}
    sketch = Sketch(capability, n, 3, rank, rank - 1, False, parameters, "normal", number)
    return realise(draw_from(sketch, {}))


def _tied(op: str, capability: Capability, count: int = quarter(300)) -> list[Case]:
    cases = [_plain(op, 2 + number % 13, number) for number in range(count)]
    found = [(case, aliased(case, capability, Dice(Stream(seed)))) for seed, case in enumerate(cases)]
    return [after for before, after in found if after is not before]


def _parts(label: Answer) -> tuple[str, str, str]:
    assert isinstance(label, tuple)
    one, how, other = map(str, label)
    return one, how, other


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [*filterfalse(_can_tie, OPS)])
def test_nothing_is_tied_where_no_two_tensors_can_share_memory(op: str) -> None:
    assert _tied(op, _capability(op), 20) == []


@pytest.mark.some(1)
@ties
def test_an_overlap_is_partial_and_outputs_never_meet(op: str) -> None:
    tied = _tied(op, _capability(op))
    assert len(tied) > 0.5 * quarter(300)
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
@ties
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


@ties
def test_every_way_can_be_asked_for(op: str) -> None:
    """In 12 turns overlaps go both ways, by one element, by a row and by some number, in the same strides and not."""
    for label in memory_labels(_capability(op)):
        case = _plain(op)
        tied = [aliased_as(case, label, turn) for turn in range(12)]
        assert {case.origin.labels for case in tied} == {((MEMORY, label),)}
        one, how, other = _parts(label)
        if how == "over":
            shifts = {case.outputs[one].layout.span[0] - case.inputs[other].layout.span[0] for case in tied}
            assert {-Frame(case).n, -1, 1, Frame(case).n} < shifts


def test_what_is_too_small_stays_as_it_is() -> None:
    case = plain(1, rows=1)
    assert aliased_as(case, ("y", "over", "x"), 0) is case
    assert aliased_as(case, ("residual", "is", "x"), 0) is case


def _wanted(op: str) -> set[tuple[str, str, str]]:
    """The ways in which the memory is shared that some kernel of the pack is given."""
    return {label for capability in capabilities_of(KERNELS, op) for label in memory_labels(capability)}


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [*filter(_wanted, EACH_OP)])
def test_a_search_ties_cases_that_some_kernel_is_given(op: str) -> None:
    kernels = [kernel for kernel in KERNELS if kernel.op == op]
    capabilities, wanted = capabilities_of(kernels, op), _wanted(op)
    for case in islice(searched(op, 3, kernels), 4096):
        if not case.apart:
            wanted -= {value for _, value in case.origin.labels}
            if not wanted:
                break
            assert any(capability.is_dispatched(case) for capability in capabilities)
    assert not wanted
