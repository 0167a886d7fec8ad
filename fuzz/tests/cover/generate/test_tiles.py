"""Whole tiles in every dimension: cases have them, coverage counts them, and kernels say which extents they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median

import pytest

from fuzz.core.adapters.pack import load
from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.draw import Frame
from fuzz.core.base.feature import Feature
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.conditions import conditions_of
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.dims import MOST_WORK, USUAL_WORK
from fuzz.core.generate.gaps import corners_of
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.sketch import simplest
from fuzz.core.generate.space import space_of
from fuzz.core.generate.steering import steer
from fuzz.core.generate.turn import Made
from fuzz.tests.common.tiled_pack import WRONG, write_tiled_pack
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS
from oracles.tests.common.dims import ALL, ATTEND, PRODUCT, TURN
from oracles.tests.common.judged import known


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(*ALL):
        yield


def _tile(extent: int) -> Feature:
    return Feature("tile", operand=extent)


def _first(capability: Capability, count: int, seed: int = 7) -> list[Made]:
    search = Search(capability.op, seed)
    search.capabilities = (capability,)
    return list(islice((made for batch in batches(search) for made in batch), count))


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sizes_for_which_kernels_are_wrong_are_drawn_within_300_cases(seed: int, tmp_path: Path) -> None:
    kernels = load(write_tiled_pack(tmp_path)).kernels
    for op in ("multiply", "attended", "batched"):
        made = (each.case for batch in batches(Search(op, seed, kernels)) for each in batch)
        left = {name for name in WRONG if name.startswith(op)}
        for case in islice(made, 300):
            left -= {name for name in left if WRONG[name](case)}
            if not left:
                break
        assert not left


def test_every_dimension_has_tails_of_its_own_beside_those_of_others() -> None:
    sizes = [Frame(made.case).sizes for made in _first(anything(PRODUCT.name), 256)]
    tails = {tuple(size[dim] % 16 for dim in "mkn") for size in sizes if min(size[dim] for dim in "mkn") > 16}
    assert len([each for each in tails if len({*each}) == 3 and 0 not in each]) >= 2
    long = {dim: {size[dim] for size in sizes if size[dim] > 500} for dim in "mkn"}
    assert all(min(len(each), len({size % 16 for size in each})) > 1 for each in long.values())


@pytest.mark.whole
def test_queries_and_values_of_one_head_have_the_sizes_of_published_heads() -> None:
    sizes = [Frame(made.case).sizes for made in _first(anything(ATTEND.name), 512)]
    heads = {size["d"] for size in sizes if size["d"] == size["e"] and min(size["i"], size["j"]) > 1}
    assert {64, 80, 96, 128, 256} <= heads


@pytest.mark.whole
def test_most_cases_stay_cheap_and_none_is_dear() -> None:
    for op in (PRODUCT, ATTEND):
        work = [made.draw.work for made in _first(anything(op.name), 256) if made.draw is not None]
        assert max(work) <= MOST_WORK
        assert median(work) < USUAL_WORK
        assert sum(each > USUAL_WORK for each in work) < len(work) // 10


def test_tiles_are_counted_by_dimension_and_in_all_at_once() -> None:
    space = space_of([anything(PRODUCT.name)])
    assert {space[_tile(tile)] for tile in (16, 32, 64, 128)} == {("m", "k", "n", "m k n together")}
    assert space_of([anything(TURN.name)])[_tile(64)] == ("t", "p"), "2 halves are no tile, and p alone no several"
    assert space_of([anything("softmax")])[_tile(64)] == ("n", "rows", "rows n together")
    long = Capability("softmax", Capabilities(multiple_of={"n": 512}))
    assert space_of([long])[_tile(32)] == ("n", "rows"), "so many rows of 512 elements would be dear"
    assert not any(kind.kind == "tile" for kind, _ in conditions_of(PRODUCT.name).all)
    ledger = Ledger(space)
    for made in _first(anything(PRODUCT.name), 16):
        ledger.see(made.case.origin.labels)
    assert "m k n together" in ledger.gaps()[_tile(128)], "so soon it is a gap that is named"


@pytest.mark.parametrize("op", [*ALL, OPS["softmax"]], ids=lambda op: op.name)
def test_every_tile_can_be_aimed_at(op: Op) -> None:
    for able in (
        Capabilities(dtypes=("f32",)),
        Capabilities(multiple_of=dict.fromkeys({*op.tiled} - {OUTER}, 24), empty=False),
    ):
        capability = Capability(op.name, able)
        gaps, plainest = corners_of(capability).gaps(0, 0), simplest(capability, Dice(Stream(1)))
        kinds = {kind: values for kind, values in space_of([capability]).items() if kind.kind == "tile"}
        for turn, label in enumerate((kind, value) for kind, values in kinds.items() for value in values):
            draw = steer(plainest, capability, gaps, [label], turn)
            case = realise(draw)
            assert label in case.origin.labels
            assert capability.refusal(case) is None
            assert draw.work <= MOST_WORK


def test_a_kernel_is_given_the_extents_that_it_takes_by_dimension() -> None:
    able = Capabilities(multiple_of={"d": 64, "j": 16}, max={"d": 64, "i": 100})
    capability = Capability(ATTEND.name, able)
    sizes = [Frame(made.case).sizes for made in _first(capability, 160)]
    assert {size["d"] for size in sizes} <= {0, 64}
    assert {size["j"] % 16 for size in sizes} == {0}
    assert max(size["i"] for size in sizes) <= 100 < max(size["e"] for size in sizes)
    space = space_of([capability])
    assert space[_tile(64)] == ("i", "d", "j", "e", "i d j e together")
    assert space[_tile(128)] == ("j", "e")
    draw = next(made.draw for made in _first(capability, 16) if made.draw is not None)
    assert capability.invalid(realise(replace(draw, extents={"j": 17, "e": 3}))) == ("j", "j = 17, no multiple of 16")
    assert capability.refusal(realise(replace(draw, n=128))) == "d = 128, more than 64"


def test_extents_of_published_models_are_drawn_together() -> None:
    heads = replace(ATTEND, shapes=({"d": 80, "e": 80}, {"d": 96, "e": 96}, {"i": 77}))
    with known(heads):
        sizes = [Frame(made.case).sizes for made in _first(anything(heads.name), 256)]
    published = [size for size in sizes if size["d"] == size["e"] and size["d"] in (80, 96)]
    assert len(published) > len(sizes) // 64, "by chance there is none"
    assert {77} < {size["i"] for size in published}


def test_rows_have_tiles_and_published_lengths_too() -> None:
    rows = replace(OPS["softmax"], shapes=({"n": 999}, {"n": 1234}))
    with known(rows):
        draws = [made.draw for made in _first(anything(rows.name), 512) if made.draw is not None]
    assert min(len([1 for draw in draws if draw.n == n]) for n in (999, 1234)) > 4, "by chance there is hardly one"
    whole = [draw for draw in draws if min(draw.n, draw.rows) >= 32]
    assert {2} < {draw.rank for draw in whole}
    assert {draw.axis == draw.rank - 1 for draw in whole} == {False, True}
    assert max(min(draw.n, draw.rows) for draw in whole if draw.n <= 144) >= 63


def test_kernels_of_one_declaration_are_one_capability() -> None:
    one, other = (Capabilities(max={"m": 4, "n": 8}), Capabilities(max={"n": 8, "m": 4}))
    assert one == other
    assert hash(one) == hash(other) != hash(Capabilities(max={"m": 8, "n": 4}))


@pytest.mark.whole
def test_each_dimension_has_each_tile_alone_in_turn() -> None:
    """A kernel may be wrong for one extent of one dimension, such as heads of 128, beside any others."""
    made = _first(anything(ATTEND.name), 512)
    seen = {(dim, size) for each in made for dim, size in Frame(each.case).sizes.items()}
    assert {(dim, tile) for dim in ATTEND.tiled if dim != OUTER for tile in (16, 32, 64, 128)} <= seen
