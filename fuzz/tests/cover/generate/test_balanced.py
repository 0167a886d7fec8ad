"""Balanced cases meet far more pairs of what a kernel may depend on than as many cases of a search, and what its source
mentions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations, islice

import numpy as np
import pytest

from fuzz.core.base.case import THREADS, Case
from fuzz.core.base.hints import EXTENT, TWO_THREADS, hints_in
from fuzz.core.base.probe import AUTOGRAD, CALLER, FRESH, OVERWRITE, PAUSE, PROCESS
from fuzz.core.generate.balanced import balanced
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.search import Search, batches
from fuzz.findings.axes import values_of
from fuzz.tests.common.hunting import GENERIC, PACK

_ABLE = GENERIC.capability
_WAYS = (OVERWRITE, FRESH, CALLER, PAUSE, PROCESS, AUTOGRAD)


def _pairs(cases: Iterable[Case]) -> set[frozenset[tuple[str, str]]]:
    axes = ([(axis, value) for axis, found in values_of(case).items() for value in found] for case in cases)
    return {frozenset(pair) for values in axes for pair in combinations(values, 2) if pair[0][0] != pair[1][0]}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_more_pairs_are_met_than_by_as_many_cases_of_a_search(seed: int) -> None:
    searched = chain.from_iterable(batches(Search(_ABLE.op, seed, [GENERIC])))
    usual = _pairs(made.case for made in islice(searched, 50))
    assert len(_pairs(each.case for each in balanced(_ABLE, seed, 50))) > 1.15 * len(usual)


def test_each_value_and_each_way_comes_about_as_often() -> None:
    made = balanced(_ABLE, 1, 60, _WAYS)
    order = [values_of(each.case).get("order of values", {"none"}) for each in made]
    assert all(sum(each == {value} for each in order) > 4 for value in ("ascending", "descending", "neither"))
    ways = [each.probe for each in made]
    assert all(ways.count(way) > 4 for way in ("", *_WAYS) if way != PAUSE)
    assert 0 < ways.count(PAUSE) < 4


def test_a_seed_makes_the_same_cases_each_time_and_another_one_others() -> None:
    first, again, other = ([each.case.digest for each in balanced(_ABLE, seed, 20)] for seed in (1, 1, 2))
    assert first == again
    assert not {*first} & {*other}


@pytest.mark.some(12)
@pytest.mark.parametrize("op", sorted({kernel.op for kernel in PACK.kernels}))
def test_cases_of_any_op_are_within_what_it_takes(op: str) -> None:
    able = anything(op)
    made = balanced(able, 1, 12, hints=[(EXTENT, 1237.0)])
    assert len(made) > 6
    assert all(able.refusal(each.case) is None for each in made)


_PECULIAR = {
    "x.shape[-1] == 1237": lambda x: x.shape[-1] == 1237,
    "x.shape[-1] > 1237": lambda x: x.shape[-1] > 1237,
    "3.1 < abs(x).max() < 3.2": lambda x: 3.1 < np.abs(x).max(initial=0) < 3.2,
    "3.1 < x[0, 0] < 3.2": lambda x: x.size > 0 and 3.1 < x.flat[0] < 3.2,
    "0.0371 <= abs(x).max() < 0.0373": lambda x: 0.0371 <= np.abs(x).max(initial=0) < 0.0373,
}


@pytest.mark.some(3)
@pytest.mark.parametrize("condition", _PECULIAR)
def test_a_peculiar_constant_is_met_where_the_source_has_it_for_each_seed(condition: str) -> None:
    hints = hints_in(f"def kernel(x):\n    return x * 2 if {condition} else x\n")

    def meets(case: Case) -> bool:
        x = case.inputs["x"]
        dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(x.dtype)
        return dtype is not None and _PECULIAR[condition](np.frombuffer(x.bits, dtype).reshape(x.layout.shape))

    met = [any(meets(each.case) for each in balanced(_ABLE, seed, 50, (), hints)) for seed in range(10)]
    assert met == [True] * 10
    if "==" in condition or "0.0371" in condition:
        without = [any(meets(each.case) for each in balanced(_ABLE, seed, 50)) for seed in range(10)]
        assert sum(without) < 3, "or hints are not needed for it"


def test_a_way_that_a_source_mentions_comes_more_often() -> None:
    def count(text: str) -> int:
        return [each.probe for each in balanced(_ABLE, 1, 60, _WAYS, hints_in(text))].count(PROCESS)

    assert count("os.environ['HOME']") >= count("") + 12


def test_threads_are_asked_for_where_kernels_take_them() -> None:
    assert not any(THREADS in each.case.params for each in balanced(_ABLE, 1, 20, hints=[(TWO_THREADS, "2")]))
