"""The laws of all ops with all their tensors: what they change, what must follow, and what they say nothing of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np
import pytest

from fuzz.core.base.case import Case
from fuzz.core.base.stream import Stream
from fuzz.core.base.validity import check_case
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.realise import realise
from fuzz.core.generate.sketch import Sketch, first_recipes, free_parameters
from fuzz.core.laws.law import Difference, LawCheck, first_difference
from fuzz.core.laws.registry import LAWS
from fuzz.core.laws.slices import sliced
from fuzz.core.laws.symmetry import check_symmetries
from fuzz.tests.common.examples import EACH_OP, each_op
from fuzz.tests.common.family import family
from oracles.check import check as check_formula
from oracles.dtypes import ITEMSIZE
from oracles.op import Op
from oracles.ops import OPS

Model = Callable[[Case], Mapping[str, bytes]]
DTYPES = ("f32", "f16", "bf16")
"""Those that a kernel in float32 reads and writes; also what a tensor always has."""
NAMES = tuple(name for name, law in LAWS.items() if law.probe is None)
BY_LAW = [(op, law) for op in EACH_OP for law in NAMES if LAWS[law].suits(OPS[op])]


CASES, MOST = 220, 1024
"""The number of cases of each op, and of an op that a law fits few of."""
ENOUGH = 25


@lru_cache(maxsize=MOST)
def case_of(op: str, number: int) -> Case:
    """Return a small case, of several dtypes mixed, in any layout, with and without optional tensors, by any recipe."""
    capability, known = anything(op), OPS[op].operand
    mixed = tuple(
        (name, tuple(each for each in dtypes if each in (*DTYPES, known(name).dtype, *known(name).integers)))
        for name, dtypes in capability.able.mixed
    )
    capability = replace(capability, able=replace(capability.able, dtypes=DTYPES, mixed=mixed))
    n, rows, rank = (int(i) for i in Stream(number).child("shape").integers(3, 2, 4))
    parameters = {each.name: each.values[number % len(each.values)] for each in free_parameters(capability)}
    recipes = first_recipes(op)
    sketch = Sketch(
        capability, 5 * n + number % 9, rows * (number % 3 + 1), rank, number % rank, number % 2 == 0,
        parameters, recipes[number % len(recipes)], number,
    )  # fmt: skip
    return realise(draw_from(sketch))


def cases_of(op: str) -> Iterator[Case]:
    return (case_of(op, number) for number in range(CASES))


def broken(check: LawCheck, case: Case, model: Model) -> Difference | None:
    twin, known = check.twin(case), model(case)
    check_case(twin)
    return first_difference(twin.outputs, check.expected(case, known), model(twin), check.leeway(case, known))


def fitting(op: str, law: str) -> list[tuple[Case, LawCheck]]:
    """The cases of an op that a law applies to, among more where these are few."""
    found = list[tuple[Case, LawCheck]]()
    for number in range(MOST):
        if number >= CASES and len(found) > ENOUGH:
            break
        case = case_of(op, number)
        if LAWS[law].applies(case):
            found.append((case, LawCheck(LAWS[law], int(case.digest[:16], 16))))
    return found


@pytest.mark.some(2)
@each_op
def test_a_law_suits_an_op_where_it_fits_some_of_its_cases(op: str) -> None:
    fits = {name for name in NAMES if any(map(LAWS[name].fits, cases_of(op)))}
    assert fits == {name for name in NAMES if LAWS[name].suits(OPS[op])}


@pytest.mark.some(2)
@pytest.mark.parametrize(("op", "law"), BY_LAW)
def test_an_honest_kernel_keeps_the_law_wherever_it_applies(op: str, law: str) -> None:
    applied = fitting(op, law)
    assert len(applied) > ENOUGH
    seen: set[str] = set()
    for case, check in applied:
        seen |= {*case.inputs, *case.outputs}
        assert broken(check, case, family) is None, case
    assert seen == {operand.name for operand in OPS[op].operands}, "the law was seen with every tensor"


EXPECTED = [(op, law, operand.name) for op, law in BY_LAW for operand in OPS[op].outputs]


@pytest.mark.some(4)
@pytest.mark.parametrize(("op", "law", "output"), EXPECTED)
def test_one_bit_of_any_output_breaks_the_law_unless_it_says_nothing_of_it(op: str, law: str, output: str) -> None:
    """The twin's last element, nudged: shown in hex with where it is. Of what is summed along a dimension, a law that
    picks slices along it says nothing."""
    caught = silent = unsaid = zeros = 0
    for case, check in fitting(op, law):
        if output not in case.outputs or not case.outputs[output].layout.size:
            continue
        twin, known = check.twin(case), family(case)
        got = dict(family(twin))
        size = ITEMSIZE[case.outputs[output].dtype]
        words = np.frombuffer(got[output], f"<u{size}").copy()
        is_zero = words[-1] == 0
        words[-1] ^= words.dtype.type(1)
        got[output] = words.tobytes()
        expected = check.expected(case, known)
        difference = first_difference(twin.outputs, expected, got, check.leeway(case, known))
        caught += difference is not None
        silent += difference is None
        unsaid += output not in expected
        zeros += difference is None and output in expected and is_zero
        if difference is not None:
            assert difference.output == output
            assert difference.index == tuple(extent - 1 for extent in twin.outputs[output].layout.shape)
            assert str(difference).count(f"(0x{int(words[-1]):0{2 * size}x})") == 1
    if LAWS[law].rearranges and not any(output in dim.batched for dim in sliced(OPS[op])):
        assert (caught, unsaid) == (0, silent)
        assert unsaid > 0
    else:
        assert caught > 5
        # A zero may have underflowed. Many a last row belongs to no group, and has zeros alone.
        assert caught > silent - unsaid - zeros, "NaNs and what may have overflowed are few"
        assert not unsaid or LAWS[law].rearranges


@pytest.mark.parametrize("op", [op for op, law in BY_LAW if law == "scaling"])
def test_scaling_moves_what_depends_on_the_scale_and_nothing_else(op: str) -> None:
    for case, check in islice(fitting(op, "scaling"), 40):
        twin = check.twin(case)
        changed = {name for name in case.inputs if twin.inputs[name].bits != case.inputs[name].bits}
        assert changed <= {*OPS[op].scaling}
        moved = {name for name in case.params if twin.params[name] != case.params[name]}
        assert moved <= {each.name for each in OPS[op].parameters if each.power}


@pytest.mark.some(28)
@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_what_an_op_says_of_itself_is_what_its_formula_says(op: Op) -> None:
    check_formula(op)
    check_symmetries(op)


def test_weights_of_each_position_stay_with_it() -> None:
    """Rows are not picked along an axis whose positions have weights of their own."""
    stacked = [
        case
        for op in ("rms_norm", "fused_add_rms_norm")
        for case in cases_of(op)
        if "weight" in case.inputs and len(case.inputs["weight"].layout.shape) == 2
    ]
    assert any(case.inputs["weight"].layout.shape[0] > 1 for case in stacked)
    for case in stacked:
        if LAWS["row_permutation"].applies(case):
            twin = LawCheck(LAWS["row_permutation"], 5).twin(case)
            assert twin.inputs["weight"] == case.inputs["weight"]
