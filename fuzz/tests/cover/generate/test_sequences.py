"""Call sequences: a case, relatives that differ in one thing each, the case again."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.case import Case
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.relatives import LENGTH, sequence, varied
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.sketch import Sketch
from fuzz.core.generate.turn import SEQUENCE_EVERY
from fuzz.tests.common.examples import EACH_OP
from fuzz.tests.common.hunting import PACK
from oracles.ops import OPS

KERNELS = PACK.kernels


def _sketch(capability: Capability, seed: int, n: int = 41) -> Sketch:
    return Sketch(
        capability, n=n, rows=6, rank=3, axis=2, odd=False, parameters={"eps": 1.0}, recipe="normal", seed=seed
    )


def _varied(first: Case, other: Case) -> str:
    """The one thing in which a case differs; it fails where there are two."""
    op = OPS[first.op]
    own, its = first.inputs[op.main], other.inputs[op.main]
    things = {
        **{f"{each.name} value": first.params.get(each.name) != other.params.get(each.name) for each in op.parameters},
        "n": own.layout.shape != its.layout.shape,
        "dtype": any(first.tensors[name].dtype != other.tensors[name].dtype for name in first.tensors),
    }
    if not any(things.values()):
        moved = any(first.tensors[name].layout != other.tensors[name].layout for name in first.tensors)
        things["layout" if moved else "values"] = True
        if moved:
            assert all(tensor.bits == other.inputs[name].bits for name, tensor in first.inputs.items())
    assert list(first.tensors) == list(other.tensors)
    (thing,) = [name for name, differs in things.items() if differs]
    return thing


@pytest.mark.some(4)
@pytest.mark.parametrize("op", dict.fromkeys((*EACH_OP, "attention", "cross_entropy", "rope_interleaved")))
def test_every_relative_differs_in_one_thing_and_everything_has_its_turn_at_both_ends(op: str) -> None:
    capability, seen = anything(op), Counter[tuple[int, str]]()
    for turn in range(24):
        draw = draw_from(_sketch(capability, turn))
        cases = sequence(draw, capability, turn)
        assert len(cases) == LENGTH
        assert cases[0] is cases[-1]
        for place, relative in enumerate(cases[1:-1]):
            assert capability.refusal(relative) is None
            seen[place, _varied(cases[0], relative)] += 1
        assert [case.digest for case in sequence(draw, capability, turn)] == [case.digest for case in cases]
    assert {thing for _, thing in seen} == {*varied(capability)}
    now_and_then = {f"{each.name} value" for each in OPS[op].parameters if each.neutral is not None}
    assert all(seen[place, thing] for place in (0, 1) for thing in varied(capability).keys() - now_and_then)


def test_a_kernel_that_takes_little_gets_what_it_takes() -> None:
    """One dtype, contiguous rows of a multiple of 64 elements: there is still something to vary."""
    capability = Capability("rms_norm", Capabilities(dtypes=("f32",), multiple_of={"n": 64}, max={"n": 128}))
    for turn in range(12):
        first, *relatives, _ = sequence(draw_from(_sketch(capability, turn, n=64)), capability, turn)
        for relative in relatives:
            assert capability.refusal(relative) is None
            assert _varied(first, relative) in ("eps value", "n", "values")


@pytest.mark.whole
def test_a_search_begins_every_other_turn_of_a_capability_with_a_sequence() -> None:
    search, before = Search("rms_norm", 5, KERNELS), Counter[Capability]()
    for turn in islice(search.turns(), 60):
        made, _ = search.cases(turn, b"")
        repeated = made[0].case.digest == made[LENGTH - 1].case.digest
        assert repeated is (before[search.capability(turn)] % SEQUENCE_EVERY == 0)
        before[search.capability(turn)] += 1
    plain = islice(batches(Search("rms_norm", 5, KERNELS, sequences=False)), 20)
    assert not any(made[0].case.digest == made[LENGTH - 1].case.digest for made in plain)
