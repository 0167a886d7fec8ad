"""Shapes that chance hardly ever gives: in relation, as models have them, large together, and along any axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice

import pytest

from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.draw import Frame
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.models import MODELS
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.shapes import purposeful
from fuzz.core.generate.sketch import simplest
from oracles.tests.common.whole import WHOLE

COUNT = 3000 if WHOLE else 1500


@dataclass(frozen=True)
class Shape:
    """The shape of a case's first input."""

    outer: tuple[int, ...]
    n: int
    is_last: bool

    @property
    def rows(self) -> int:
        return math.prod(self.outer)


@pytest.fixture(scope="module")
def drawn() -> list[Shape]:
    """Return the shapes of the first cases for a kernel of any axis and no strides, but for the series of big ones."""
    search = Search("rms_norm", 1)
    search.capabilities = (Capability("rms_norm", Capabilities(axis="any")),)
    frames = [Frame(made.case) for made in islice(chain.from_iterable(batches(search)), COUNT)]
    own = [frame for frame in frames if all(kind.kind != "big" for kind, _ in frame.case.origin.labels)]
    return [Shape(frame.outer, frame.n, frame.axis == len(frame.grid) - 1) for frame in own]


def _share(drawn: list[Shape], holds: Callable[[Shape], bool]) -> float:
    return sum(map(holds, drawn)) / len(drawn)


@pytest.mark.whole
def test_many_rows_are_also_long_ones(drawn: list[Shape]) -> None:
    assert sum(each.rows >= 17 and each.n >= 1024 for each in drawn) >= 6
    assert sum(each.rows >= 17 and each.n >= 256 for each in drawn) >= 15


def test_rows_lie_along_other_axes_where_that_is_declared(drawn: list[Shape]) -> None:
    assert _share(drawn, lambda each: not each.is_last) > 0.2
    assert _share(drawn, lambda each: not each.is_last and each.rows > 1 and each.n > 1) > 0.1


def test_extents_stand_in_relation_to_each_other(drawn: list[Shape]) -> None:
    real = [each for each in drawn if each.n > 1 and each.rows > 1]
    assert _share(real, lambda each: each.n in each.outer) > 0.03
    assert _share(real, lambda each: each.n in each.outer and not each.is_last) > 0.015
    assert _share(real, lambda each: each.rows == each.n) > 0.02
    assert _share(real, lambda each: each.n % each.rows == 0 and each.n > each.rows > 4) > 0.003
    assert _share(real, lambda each: each.rows % each.n == 0 and each.rows > each.n > 4) > 0.003
    assert _share(real, lambda each: any(e > 4 and each.outer.count(e) > 1 for e in each.outer)) > 0.003


@pytest.mark.whole
def test_some_cases_have_the_shapes_of_models(drawn: list[Shape]) -> None:
    widths = {model.width for model in MODELS}
    heads = {(model.heads, model.head) for model in MODELS}
    assert sum(each.n in widths and len(each.outer) == 2 and each.outer[-1] > 1 for each in drawn) >= 8
    assert sum(any((extent, each.n) in heads for extent in each.outer) for each in drawn) >= 4


def test_cases_stay_cheap(drawn: list[Shape]) -> None:
    """They had 1,700 elements before there were such shapes."""
    assert sum(each.n * each.rows for each in drawn) / len(drawn) < 2300
    assert max(each.n * each.rows for each in drawn) <= 17 * 4096


@pytest.mark.parametrize(
    "able",
    [Capabilities(max={"n": 70}), Capabilities(multiple_of={"n": 64}), Capabilities(multiple_of={"n": 4096})],
)
def test_such_shapes_are_within_what_the_kernel_takes(able: Capabilities) -> None:
    sketch = simplest(Capability("rms_norm", able), Dice(Stream(1)))
    shaped = [purposeful(sketch, Dice(Stream(seed))) for seed in range(2000)]
    found = [each for each in shaped if each is not None]
    assert len(found) > 20
    assert all(each.n % able.multiple_of.get("n", 1) == 0 and each.axis == each.rank - 1 for each in found)
    assert all(each.n <= able.max.get("n", each.n) for each in found)
    assert all(math.prod(each.outer) == each.rows and len(each.outer) == each.rank - 1 for each in found if each.outer)
