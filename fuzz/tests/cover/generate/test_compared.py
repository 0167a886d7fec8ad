"""What is wrong next to a number that a formula compares elements with, or at one ordinary size alone, is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuzz
from fuzz import formula as f
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.stream import Stream
from fuzz.core.generate.compared import compared
from fuzz.core.generate.menus import menus_of
from fuzz.core.generate.recipes import RECIPES, RowSpec
from fuzz.core.generate.search import Search, batches
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.common.told import fails
from oracles.op import Op
from oracles.operand import Operand, Parameter
from oracles.ops import register

ROWS = Operand("x", "... n")


def switching(x: Any, limit: Any) -> Any:
    far = f.where(abs(2.0 * x - 1.0) > 5.0, x, 0.0)
    return {"y": far + f.where(-x < limit / 2.0, 1.0, f.where(x * x <= 9.0, x, f.exp(x) < 1.0))}


SWITCHING = Op(switching, inputs=(ROWS,), outputs=(Operand("y", "... n"),), parameters=(Parameter("limit", (8.0,)),))


def picking(x: Any, label: Any, code: Any) -> Any:
    kept = f.where(label == 3.0, 0.0, f.take(x, label, "n"))
    return {"y": f.where(code < -100.0, 0.0, kept)}


PICKING = Op(
    picking,
    inputs=(
        ROWS,
        Operand("label", "...", dtype="int64", index="n"),
        Operand("code", "...", dtype="int8", values="codes"),
    ),
    outputs=(Operand("y", "..."),),
)


def test_the_numbers_that_elements_are_compared_with_are_read_off_the_formula() -> None:
    """Through plain arithmetic and parameters; what follows from an exponential is not looked for."""
    assert {*compared(SWITCHING, (("limit", 8.0),))["x"]} == {3.0, -2.0, -4.0, -3.0}
    assert {*compared(SWITCHING)["x"]} == {3.0, -2.0, -3.0}, "nobody says what the limit is"
    assert compared(PICKING) == {"label": (3.0,), "code": (-100.0,)}


def test_what_is_compared_with_numbers_is_drawn_near_them_often() -> None:
    assert menus_of(SWITCHING)["x"].often.count("near_numbers") > 1
    assert menus_of(PICKING)["x"].often.count("near_numbers") == 1
    assert {"near_codes"} <= {*menus_of(PICKING)["label"].often} & {*menus_of(PICKING)["code"].often}


def smallest_two(x: Any, w: Any) -> Any:
    return {"y": f.topk(-x, 2, "n")[0]}


def test_what_is_put_in_order_has_equal_elements_and_few_finite_ones() -> None:
    """A search for the k largest that takes one twice is right for other rows."""
    outputs = (Operand("y", "... k"),)
    op = Op(smallest_two, inputs=(ROWS, replace(ROWS, name="w")), outputs=outputs)
    assert {"tied", "masked", "one_finite"} <= {*menus_of(op)["x"].often}
    assert "masked" not in menus_of(op)["w"].recipes
    finite = Op(smallest_two, inputs=(replace(ROWS, values="finite"), replace(ROWS, name="w")), outputs=outputs)
    assert "tied" in menus_of(finite)["x"].often
    assert "masked" not in menus_of(finite)["x"].recipes


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "number"), [("label", 3), ("code", -100)])
def test_about_a_third_of_all_cases_have_the_number_that_is_told_from_others(name: str, number: int) -> None:
    with unknown_afterwards():
        register(PICKING)
        made = islice(chain.from_iterable(batches(Search("picking", 1))), 400)
        cases = [each.case for each in made if each.case.inputs["x"].layout.shape[-1] > 4]
    inputs = [case.inputs[name] for case in cases if case.inputs[name].layout.size > 3]
    values = [from_bits(each.bits, each.dtype, (-1,)).tolist() for each in inputs]
    assert len(values) > 60
    for near, share in ((number, 0.25), (number - 1, 0.15), (number + 1, 0.15)):
        assert sum(near in each for each in values) > share * len(values), near


@pytest.mark.parametrize(("dtype", "nearest"), [("f32", 2.0**-10), ("bf16", 2.0**-6)])
@given(st.integers(0, 2**64 - 1))
def test_numbers_come_with_their_neighbours_and_what_is_near(dtype: str, nearest: float, key: int) -> None:
    spec = RowSpec(8, 200, dtype, compared=(3.0, 0.0))
    values = RECIPES["near_numbers"].draw(spec, Stream(key))
    three, zero = np.array([3.0, 0.0]).astype(values.dtype)
    beside = [np.nextafter(number, values.dtype.type(end)) for number in (three, zero) for end in (-9.0, 9.0)]
    assert {*map(float, [three, zero, *beside])} <= {*map(float, values.reshape(-1))}
    wide = values.astype(np.float64)
    assert ((wide > 3.0 - 4.0 * nearest) & (wide < 3.0)).any()
    assert ((wide > 0.001) & (wide < 0.1)).any()


@pytest.mark.parametrize("name", ["constant", "uniform", "alternating", "monotone"])
def test_rows_of_one_recipe_are_small_and_large(name: str) -> None:
    rows = RECIPES[name].draw(RowSpec(7, 300, "f32"), Stream(4)).astype(np.float64)
    sizes = np.abs(rows).max(axis=1)
    assert sizes.min() < 0.25
    assert 8.0 < sizes.max() < 16.0


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unexplained: None) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with unknown_afterwards():
        yield


def _softplus_early(x: Any) -> Any:
    import torch

    return torch.where(x > 10, x, torch.nn.functional.softplus(x))


def _hardswish_narrow(x: Any) -> Any:
    import torch

    return torch.where(x > 2.999, x, torch.nn.functional.hardswish(x))


def _small_rows(x: Any) -> Any:
    """Wrong for long rows whose largest magnitude is below 1/2."""
    import torch

    is_small = (x.abs().amax(-1, keepdim=True) < 0.5) & (x[..., :1] != 0.0)
    return torch.softmax(x, -1) * torch.where(is_small & (x.shape[-1] > 512), 1.001, 1.0)


@pytest.mark.whole
@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    ("mine", "name", "seed"),
    [
        *((_softplus_early, "softplus", seed) for seed in (1, 2, 3)),
        *((_hardswish_narrow, "hardswish", seed) for seed in (1, 2, 3)),
        (_small_rows, "softmax", 1),
    ],
)
def test_what_is_wrong_at_some_sizes_alone_is_found_with_each_seed(
    mine: Callable[..., Any], name: str, seed: int
) -> None:
    from torch.nn import functional

    def reference(x: Any) -> Any:
        return functional.softmax(x, -1) if name == "softmax" else getattr(functional, name)(x)

    with fails():
        fuzz.check(mine, reference=reference, shapes="x=... n", max_cases=100, seed=seed)
