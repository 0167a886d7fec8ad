"""Turns: the cases of each follow from its place and state alone, and 64 shards go separate ways."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import chain, islice

import pytest

from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.feature import Feature, Label
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.gaps import corners_of
from fuzz.core.generate.realise import realise
from fuzz.core.generate.relatives import CHANGES
from fuzz.core.generate.search import SHARDS, Search, batches
from fuzz.core.generate.sketch import Sketch
from fuzz.core.generate.space import space_of
from fuzz.core.generate.turn import BATCH, PLACES, Made, Turn
from fuzz.core.laws.registry import LAWS, with_twins
from fuzz.findings.casefile import from_json, to_json
from fuzz.tests.common.examples import each_op
from fuzz.tests.common.hunting import PACK
from fuzz.tests.conftest import CHECKOUT, HANG_S

KERNELS = PACK.kernels


def _search(seed: int = 3, op: str = "rms_norm") -> Search:
    return Search(op, seed, KERNELS)


def _turn(made: list[Made]) -> Turn:
    origin = made[0].case.origin
    assert isinstance(origin.shard, int)
    return Turn(origin.shard, origin.number // PLACES)


def _said(made: list[Made], state: bytes) -> list[object]:
    cases = [each.case for each in made]
    labels = [[list(label) for label in case.origin.labels] for case in cases]
    return [[case.digest for case in cases], [case.origin.name for case in cases], labels, state.hex()]


def _chain(search: Search, shard: int, turns: int) -> list[object]:
    """What is made in the first turns of a shard for the capability of its first one."""
    state, said = b"", list[object]()
    for number in range(0, turns * len(search.capabilities), len(search.capabilities)):
        made, state = search.cases(Turn(shard, number), state)
        said.append(_said(made, state))
    return said


@pytest.mark.some(1)
@each_op
def test_a_turn_alone_is_the_turn_after_others(op: str) -> None:
    """Whatever the search object made before, and in whatever order."""
    one, other = _search(op=op), _search(op=op)
    forward = {turn: _said(*one.cases(turn, b"")) for turn in islice(one.turns(), 6)}
    backward = {turn: _said(*other.cases(turn, b"")) for turn in reversed(forward)}
    assert forward == backward


def test_capabilities_that_are_equal_give_the_same_turns() -> None:
    """Another pack of one process may have them: what is kept of the first ones must not tell them apart."""
    again = Search("rms_norm", 3, [replace(kernel) for kernel in KERNELS])
    first = again.capabilities[0]
    assert first == _search().capabilities[0]
    assert first is not _search().capabilities[0]
    for turn in islice(again.turns([first]), 6):
        assert _said(*again.cases(turn, b"")) == _said(*_search().cases(turn, b""))


def test_the_label_of_a_number_is_its_own_whichever_equal_one_came_before() -> None:
    draw = draw_from(Sketch(_search().capabilities[0], 5, 3, 2, 1, False, {"eps": 1e-5}, "normal", 1), {})
    labels = [{*realise(draw.with_params(eps=eps)).origin.labels} for eps in (-0.0, 0.0)]
    assert [sorted(str(value) for kind, value in each if kind == Feature("parameter", "eps")) for each in labels] == [
        ["-0.0"],
        ["0.0"],
    ]


@pytest.mark.whole
def test_another_process_makes_the_same_turn() -> None:
    program = (
        "import json; from fuzz.tests.cover.generate.test_turns import _chain, _search; "
        "print(json.dumps(_chain(_search(), 7, 3)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=HANG_S
    ).stdout
    assert json.loads(said) == json.loads(json.dumps(_chain(_search(), 7, 3)))


@pytest.mark.whole
def test_the_choice_of_capabilities_leaves_turns_out_and_changes_none() -> None:
    search = _search()
    every = [next_turn for next_turn, _ in zip(search.turns(), range(3 * SHARDS), strict=False)]
    for chosen in ({search.capabilities[2]}, {*search.capabilities[4:7]}):
        some = [turn for turn in every if search.capability(turn) in chosen]
        assert list(islice(search.turns(chosen), len(some))) == some
        assert 0 < len(some) < len(every) / 2
    alone = list(islice(batches(search, {search.capabilities[2]}), 8))
    every_batch = [made for made in islice(batches(search), 90) if len(made) == BATCH]
    among = [made for made in every_batch if search.capability(_turn(made)) == search.capabilities[2]]
    assert [_said(made, b"") for made in alone] == [_said(made, b"") for made in among[:8]]


def test_a_search_of_what_nobody_declares_does_not_go_on_for_ever() -> None:
    search = _search()
    foreign = replace(search.capabilities[0], op="fused_add_rms_norm")
    with pytest.raises(UsageError, match="none of the chosen"):
        search.turns({foreign})


@pytest.mark.whole
def test_shards_make_cases_of_their_own_with_names_of_their_own() -> None:
    turns = [made for made in islice(batches(_search()), 3 * SHARDS) if len(made) == BATCH]
    own = [made.case for made in chain.from_iterable(turns[: 2 * SHARDS])]
    assert len({case.origin.name for case in own}) == len(own) == 2 * SHARDS * BATCH
    assert {case.origin.shard for case in own} == {*range(SHARDS)}
    assert {case.origin.number % PLACES for case in own} == {*range(1, BATCH + 1)}
    elements = [case for case in own if case.inputs["x"].layout.size > 0]
    repeated = 2 * SHARDS // 2 * 2  # call sequences end with their first case, which may also stand in for a relative
    assert len({case.digest for case in elements}) > len(elements) - repeated


@pytest.mark.whole
def test_a_case_is_found_again_by_its_shard_and_number() -> None:
    search = _search()
    made = list(chain.from_iterable(islice(batches(search), SHARDS * 3 + 9)))
    for each in (made[3], made[16 * SHARDS + 40], made[-1]):
        origin = each.case.origin
        assert isinstance(origin.shard, int)
        again = _search().case(origin.shard, origin.number)
        assert again is not None
        assert again.case.digest == each.case.digest
        assert again.case.origin == origin
        assert again.case.origin.name == origin.name
    assert search.case(3, 17) is None
    assert search.case(3, 0) is None
    assert search.case(SHARDS, 1) is None


def test_a_state_is_small_and_what_it_knows_is_not_asked_for_again() -> None:
    search = _search()
    capability, state, seen = search.capabilities[0], b"", set[Label]()
    labels, pairs = list[int](), list[int]()
    for number in range(0, 6 * len(search.capabilities), len(search.capabilities)):
        made, state = search.cases(Turn(0, number), state)
        labels.append((int.from_bytes(state, "little") & corners_of(capability).everything).bit_count())
        pairs.append((int.from_bytes(state, "little") >> corners_of(capability).size).bit_count())
        seen |= {label for each in made if each.capability == capability for label in each.case.origin.labels}
    assert labels == sorted(labels)
    assert labels[-1] > 1.8 * labels[0]
    assert pairs == sorted(pairs)
    assert pairs[-1] > 1.5 * pairs[0]
    assert len(state) < 300
    ledger = Ledger(space_of([capability]))
    ledger.see(seen)
    assert labels[-1] <= sum(map(len, ledger.space.values())) - ledger.size


@pytest.mark.whole
@pytest.mark.parametrize(("name", "count", "most"), [("sve", 160, 340), ("sve", 1000, 25), ("add-generic", 1000, 25)])
def test_turns_of_many_shards_together_cover_as_much_as_one_search(name: str, count: int, most: int) -> None:
    """A ledger over all cases left 261 and 266 gaps after 160 cases, and none after 1000."""
    (kernel,) = [kernel for kernel in KERNELS if kernel.name == name]
    ledger = Ledger(space_of([kernel.capability]))
    for made in islice(chain.from_iterable(batches(Search(kernel.op, 1, [kernel]))), count):
        ledger.see(made.case.origin.labels)
    assert ledger.size <= most


def test_a_relative_has_a_place_after_the_own_cases_of_its_turn() -> None:
    search = _search()
    turn = next(search.turns())
    made = next(each for each in search.cases(turn, b"")[0] if each.draw is not None and each.draw.n > 1)
    assert made.draw is not None
    [relative] = search.relatives([(replace(made.draw, seed=5), made.capability, BATCH + 1)], turn)
    assert relative is not None
    assert relative.case.origin.name == "0:17"
    short = Capability("rms_norm", replace(made.capability.able, max={"n": max(made.draw.n - 1, 0)}))
    assert search.relatives([(made.draw, short, BATCH + 2)], turn) == [None]


def test_a_case_file_keeps_the_place_and_one_of_an_earlier_version_has_none() -> None:
    case = _search().cases(Turn(9, 0), b"")[0][4].case
    again, _ = from_json(json.loads(json.dumps(to_json(case))))
    assert again.origin.name == case.origin.name == "9:5"
    record = to_json(case)
    record["origin"] = {"recipe": "normal", "layout": "contiguous", "seed": 4, "number": 77}
    old, _ = from_json(record)
    assert (old.origin.name, old.origin.number, old.digest) == ("", 77, case.digest)


@pytest.mark.whole
def test_twins_are_chosen_without_a_digest() -> None:
    """The seed and place of a case decide: equal cases of one sequence need not both have a twin."""
    cases: list[Case] = [made.case for made in chain.from_iterable(islice(batches(_search()), 40))]
    entries = with_twins(cases, tuple(LAWS))
    twins = [entry for entry in entries if entry.check is not None]
    assert len(cases) / 16 < len(twins) < len(cases) / 5
    assert len({twin.check.name for twin in twins if twin.check is not None}) > 6
    assert not any("digest" in vars(case) for case in cases)


def test_what_guidance_makes_shorter_has_the_elements_that_an_op_always_has() -> None:
    search, short = _search(op="row_var"), list[int]()
    for turn in (Turn(0, number) for number in range(6)):
        capability = search.capability(turn)
        draws = [each.draw for each in search.cases(turn, b"")[0] if each.draw is not None]
        for place, each in enumerate(draws):
            changed = (CHANGES[name](each, capability, Dice(Stream(place))) for name in ("shorter", "near"))
            short += [draw.n for draw in changed]
    assert min(short) == 2
