"""Inputs of integers: what is drawn of them, and what stays true of them in smaller cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count, islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import Frame
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.feature import Feature
from fuzz.core.base.stream import Stream
from fuzz.core.base.validity import check_case
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.menus import menus_of
from fuzz.core.generate.realise import draw_of, realise
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.turn import Turn, TurnMaker
from fuzz.core.generate.variations import base_of
from fuzz.explain.rule.values import value_traits
from fuzz.explain.shrink.reduction import Reduction, reduced_case
from oracles.dtypes import INTEGERS
from oracles.op import Op
from oracles.tests.common.integers import ALL, CUT, ENTROPY, GATHERED, KEPT, LED, PADDED, WEIGHED
from oracles.tests.common.judged import known

_TURNS = 24


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


@cache
def cases(op: Op) -> list[Case]:
    return [each.case for batch in islice(batches(Search(op.name, 1)), _TURNS) for each in batch]


def _is_empty(case: Case) -> bool:
    return any(not tensor.layout.size for tensor in case.tensors.values())


def integers(case: Case, name: str) -> NDArray[Any]:
    tensor = case.inputs[name]
    return from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_every_case_has_integers_that_its_op_takes(op: Op) -> None:
    [name] = op.integers
    recipes = set[str]()
    for case in cases(op):
        check_case(case)
        lowest, highest = op.operand(name).span(Frame(case).sizes)
        values = integers(case, name)
        assert ((values >= lowest) & (values <= highest) | (values == op.operand(name).missing)).all()
        assert realise(draw_of(case)).digest == case.digest
        recipes |= {str(value) for kind, value in case.origin.labels if kind == Feature("recipe", name)}
    assert recipes == {*menus_of(op)[name].names}


def test_places_have_the_dtypes_that_their_op_takes() -> None:
    assert {case.inputs["label"].dtype for case in cases(ENTROPY)} == {"int32", "int64"}
    assert {case.inputs["place"].dtype for case in cases(GATHERED)} == {"int32", "int64"}
    assert {case.inputs["keep"].dtype for case in cases(KEPT)} == {*INTEGERS}
    plain = Capability(ENTROPY.name, Capabilities())
    assert plain.dtypes_of("label", {"x": "f32"}) == ("int64",)


def test_codes_are_all_numbers_of_their_dtype() -> None:
    drawn = {int(value) for case in cases(WEIGHED) for value in integers(case, "code").flat}
    assert {-128, -127, -1, 0, 1, 127} <= drawn
    assert {case.inputs["code"].dtype for case in cases(WEIGHED)} == {"int8"}


def test_a_shorter_row_has_no_place_beyond_its_end() -> None:
    case = next(case for case in cases(ENTROPY) if (integers(case, "label") > 8).any() and Frame(case).n > 12)
    rows = tuple((0, extent) for extent in Frame(case).outer)
    short = reduced_case(case, Reduction(rows, (0, 8)))
    check_case(short)
    assert (integers(short, "label") == np.minimum(integers(case, "label"), 7)).all()
    with pytest.raises(CaseError, match="there is no place along n"):
        reduced_case(case, Reduction(rows, (0, 0)))


def test_what_is_missing_is_so_in_a_smaller_case_too() -> None:
    case = next(case for case in cases(PADDED) if (integers(case, "place") == -1).any() and Frame(case).sizes["v"] > 4)
    short = reduced_case(case, Reduction(((0, 2),), (0, Frame(case).n)))
    assert (integers(short, "place") == np.minimum(integers(case, "place"), 1)).all()
    for values, told in ((integers(case, "place"), "yes"), (integers(case, "place") * 0, "no")):
        place = replace(case.inputs["place"], bits=values.tobytes())
        traits = dict(value_traits(replace(case, inputs={**case.inputs, "place": place})))
        assert traits[Feature("missing place", "place")] == told


@pytest.mark.parametrize("share", ["none", "some", "all but one", "all"])
def test_places_are_missing_in_any_number(share: str) -> None:
    found = [integers(case, "place") == -1 for case in cases(PADDED) if integers(case, "place").size > 2]
    holds = {
        "none": lambda missing: not missing.any(),
        "some": lambda missing: 1 < missing.sum() < missing.size - 1,
        "all but one": lambda missing: missing.sum() == missing.size - 1,
        "all": lambda missing: missing.all(),
    }
    assert sum(map(holds[share], found)) > 4


@pytest.mark.parametrize("share", ["none", "some", "all", "the first", "the last"])
def test_pieces_are_empty_in_any_number(share: str) -> None:
    """Ends ascend from 0 to the extent, and what is behind the last one is nobody's."""
    found = [(Frame(case).n, integers(case, "till")) for case in cases(CUT)]
    lengths = [np.diff(ends, prepend=0) for n, ends in found if n and ends.size > 2]
    holds = {
        "none": lambda each: (each > 0).all(),
        "some": lambda each: (each == 0).any() and (each > 0).sum() > 1,
        "all": lambda each: not each.any(),
        "the first": lambda each: each[0] == 0 and each.any(),
        "the last": lambda each: each[-1] == 0 and each.any(),
    }
    assert sum(map(holds[share], lengths)) > 4
    assert all((each >= 0).all() for each in lengths)
    assert {bool(ends.size and ends[-1] < n) for n, ends in found} == {False, True}
    assert not all(n for n, _ in found), "what is cut may be empty"


@pytest.mark.whole
@pytest.mark.parametrize("share", ["none", "all", "whole blocks", "one more", "one less"])
def test_lengths_are_any_by_themselves(share: str) -> None:
    sizes = [(Frame(case).sizes, integers(case, "used")) for case in cases(LED)]
    found = [(size["c"] * size["n"], size["n"], used) for size, used in sizes if size["c"] > 2 and size["n"] > 3]
    holds = {
        "none": lambda most, block, used: (used == 0).any(),
        "all": lambda most, block, used: (used == most).any(),
        "whole blocks": lambda most, block, used: ((used % block == 0) & (used > 0) & (used < most)).any(),
        "one more": lambda most, block, used: ((used % block == 1) & (used > 1)).any(),
        "one less": lambda most, block, used: ((used % block == block - 1) & (used < most - 1)).any(),
    }
    assert sum(holds[share](*each) for each in found) > 4
    assert any((np.diff(used.astype(int)) < 0).any() for *_, used in found), "they do not ascend"


def test_a_piece_without_elements_is_told() -> None:
    case = next(case for case in cases(CUT) if Frame(case).n > 4 and integers(case, "till").size == 3)
    dtype = integers(case, "till").dtype
    for values, told in (([1, 1, 4], "yes"), ([0, 2, 4], "yes"), ([1, 2, 3], "no")):
        till = replace(case.inputs["till"], bits=np.array(values, dtype).tobytes())
        traits = dict(value_traits(replace(case, inputs={**case.inputs, "till": till})))
        assert traits[Feature("empty piece", "till")] == told


def test_the_last_place_of_a_row_is_that_of_a_longer_one_too() -> None:
    case = next(
        case for case in cases(ENTROPY) if Frame(case).n > 3 and (integers(case, "label") == Frame(case).n - 1).all()
    )
    longer = realise(replace(base_of(case), n=Frame(case).n + 5))
    assert (integers(longer, "label") == Frame(case).n + 4).all()


def with_places(case: Case, name: str, place: int) -> Case:
    tensor = case.inputs[name]
    bits = np.full(tensor.layout.shape, place, integers(case, name).dtype).tobytes()
    return replace(case, inputs={**case.inputs, name: replace(tensor, bits=bits)})


@pytest.mark.parametrize(
    ("op", "name", "dim", "place", "said"),
    [
        (ENTROPY, "label", "n", -1, "label: -1 is none of places along n, which are 0 to 6"),
        (ENTROPY, "label", "n", 7, "label: 7 is none of places along n, which are 0 to 6"),
        (PADDED, "place", "v", -2, "place: -2 is none of places along v, which are 0 to 6, or -1"),
        (CUT, "till", "n", 8, "till: 8 is none of ends along n, which are 0 to 7"),
    ],
)
def test_what_is_no_place_is_given_to_nobody_but_who_checks(op: Op, name: str, dim: str, place: int, said: str) -> None:
    case = next(c for c in cases(op) if Frame(c).sizes[dim] == 7 and integers(c, name).size and not _is_empty(c))
    wrong = with_places(case, name, place)
    check_case(wrong)
    able = anything(op.name).able
    careless, strict = Capability(op.name, able), Capability(op.name, replace(able, outside="rejects"))
    careful = Capability(op.name, replace(able, checks=(name,)))
    for each in (careless, strict):
        assert each.foreign(wrong) == said
        assert not each.is_dispatched(wrong)
    assert (careful.refusal(wrong), careful.is_dispatched(wrong)) == (said, True)
    assert careful.invalid(case) is None


def test_a_case_that_is_wrong_in_more_than_its_places_is_not_given_to_who_checks_these_alone() -> None:
    case = next(case for case in cases(ENTROPY) if Frame(case).n == 7 and case.inputs["x"].dtype != "f64")
    wide = Capability(ENTROPY.name, Capabilities(dtypes=("f64",), checks=("label",)))
    assert not wide.is_dispatched(with_places(case, "label", 7))


@pytest.mark.some(1)
@pytest.mark.parametrize(("op", "name", "dim"), [(ENTROPY, "label", "n"), (PADDED, "place", "v")])
def test_who_checks_places_is_given_all_kinds_of_numbers_that_are_none(op: Op, name: str, dim: str) -> None:
    able = Capabilities(mixed=((name, ("int32", "int64")),), checks=(name,))
    capability = Capability(op.name, able)
    kinds = set[str]()
    for batch in islice(turns_of(capability), _TURNS * 4):
        for case in batch:
            if not capability.is_dispatched(case) or capability.invalid(case) is None:
                continue
            count, values = Frame(case).sizes[dim], integers(case, name).astype(int)
            assert realise(draw_of(case)).digest == case.digest
            strays = values[((values < 0) | (values >= count)) & (values != op.operand(name).missing)]
            kinds |= {"alone"} if strays.size == 1 < values.size else set()
            kinds |= {words for words, number in _STRAYS.items() if (strays == number(count)).any()}
    assert kinds == {"alone", *_STRAYS} - ({"-1"} if op is PADDED else set())


def turns_of(capability: Capability) -> Iterator[list[Case]]:
    maker, state = TurnMaker(capability, 0, sequences=True), b""
    for rank in count():
        made, state = maker.cases(Turn(0, rank), Stream(rank), rank, state)
        yield [each.case for each in made]


_STRAYS: dict[str, Callable[[int], int]] = {
    "-1": lambda count: -1, "the extent": lambda count: count, "the next": lambda count: count + 1,
    "the largest of 32 bits": lambda count: 2**31 - 1, "beyond 32 bits": lambda count: 2**32,
}  # fmt: skip


def test_what_is_no_place_is_none_in_a_smaller_case_too() -> None:
    case = next(
        c for c in cases(ENTROPY) if Frame(c).n > 12 and integers(c, "label").size and c.inputs["label"].alias is None
    )
    rows = tuple((0, extent) for extent in Frame(case).outer)
    for place, wanted in ((Frame(case).n, Frame(case).n), (-1, -1), (2**31 - 1, 2**31 - 1)):
        short = reduced_case(with_places(case, "label", place), Reduction(rows, (0, 8)))
        assert (integers(short, "label") == wanted).all(), place


def test_a_dtype_of_other_numbers_is_refused() -> None:
    case = cases(ENTROPY)[0]
    label = replace(case.inputs["label"], dtype="f32")
    with pytest.raises(CaseError, match=r"inputs\.label\.dtype: f32, must be int32 or int64"):
        check_case(replace(case, inputs={**case.inputs, "label": label}))
