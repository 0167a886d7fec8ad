"""Numbers that follow from extents are read however they do; and what too few calls say is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import Dim
from fuzz.references.fits import counted, fitted, powers
from oracles.formula.made import value_of

CALLS = {"n": [11, 5, 12, 9, 16, 22, 25, 14, 18, 33, 20, 27], "m": [5, 7, 16, 22, 25, 14, 18, 33, 20, 27, 35, 24]}


def _minus_infinity_above(scores: Any, kept: Any) -> Any:
    return torch.where(kept, scores, -math.inf)


def by_places(q, k):  # type: ignore[no-untyped-def]
    sq, sk = q.shape[-2], k.shape[-2]
    i, j = torch.arange(sq)[:, None] + (sk - sq), torch.arange(sk)
    return _minus_infinity_above(q @ k.transpose(-1, -2), j <= i)


def by_tril(q, k):  # type: ignore[no-untyped-def]
    sq, sk = q.shape[-2], k.shape[-2]
    return _minus_infinity_above(q @ k.transpose(-1, -2), torch.ones(sq, sk).tril(sk - sq).bool())


def by_triu(q, k):  # type: ignore[no-untyped-def]
    sq, sk = q.shape[-2], k.shape[-2]
    return _minus_infinity_above(q @ k.transpose(-1, -2), ~torch.ones(sq, sk).triu(sk - sq + 1).bool())


@pytest.mark.some(2)
@pytest.mark.parametrize("reference", [by_places, by_tril, by_triu])
@pytest.mark.parametrize("shapes", ["q=b sq d, k=b sk d", "q=b h sq d, k=b h sk d"])
def test_a_causal_mask_of_queries_and_keys_of_other_lengths_starts_at_the_bottom_right(
    reference: Callable[..., Any], shapes: str
) -> None:
    text = derive(reference, shapes).formula.text
    assert 'f.extent("sk") - f.extent("sq")' in text


@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (lambda n, m: n // 2, 'f.floor(f.extent("n") / 2.0)'),
        (lambda n, m: -(-n // 4) * m, 'f.floor((f.extent("n") + 3.0) / 4.0) * f.extent("m")'),
        (lambda n, m: 2 * n + 3 * m - 5, 'f.extent("n") * 2.0 + f.extent("m") * 3.0 - 5.0'),
        (lambda n, m: m - n, 'f.extent("m") - f.extent("n")'),
        (lambda n, m: (n + 1) * (m - 1), 'f.extent("m") + f.extent("n") * f.extent("m") - f.extent("n") - 1.0'),
        (lambda n, m: 0.7 / math.sqrt(n), '0.7 * f.rsqrt(f.extent("n"))'),
        (lambda n, m: 1 / (2 * n + 1), 'total / (f.extent("n") * 2.0 + 1.0)'),
        (lambda n, m: math.log(n + m), 'f.log(f.extent("n") + f.extent("m"))'),
        (lambda n, m: n * n * m / 3, '(f.extent(("n", "m")) * f.extent("n"))'),
    ],
)
def test_a_number_is_read_as_what_it_follows_from(number: Callable[[int, int], float], text: str) -> None:
    found = derive(lambda x, y: x.sum() * number(x.shape[0], y.shape[0]) + y.sum(), "x=n, y=m")
    assert text in found.formula.text


def test_an_axis_is_as_long_as_a_sum_of_others() -> None:
    found = derive(lambda x, y: torch.arange(x.shape[0] + 2 * y.shape[0] - 1) * x.sum() + y.sum(), "x=n, y=m")
    assert 'f.position("out_axis0", f.extent("n") + f.extent("m") * 2.0 - 1.0)' in found.formula.text


@pytest.mark.parametrize("count", [2, 4, 5])
def test_what_too_few_calls_say_is_no_fit(count: int) -> None:
    few = {name: sizes[:count] for name, sizes in CALLS.items()}
    assert counted([n - m for n, m in zip(*few.values(), strict=True)], few) is None
    assert fitted([0.5 * (n - m) for n, m in zip(*few.values(), strict=True)], few) is None


def test_noise_is_no_fit() -> None:
    assert fitted([*np.random.default_rng(0).normal(size=len(CALLS["n"]))], CALLS) is None


def test_a_fit_holds_for_each_call() -> None:
    values = [3 * n // 7 + m for n, m in zip(*CALLS.values(), strict=True)]  # 3 n // 7 is none that is tried
    assert counted(values, CALLS) is None
    found = counted([n // 7 + m for n, m in zip(*CALLS.values(), strict=True)], CALLS)
    assert found is not None
    assert [value_of(found, {"n": n, "m": m}) for n, m in ((30, 5), (70, 9))] == [9, 19]


def test_two_calls_show_no_difference_as_half_a_square() -> None:
    dims = [Dim("b", (5, 7)), Dim("sq", (11, 5)), Dim("d", (13, 17)), Dim("sk", (19, 23))]
    assert not [*powers((8.0, 18.0), dims)]
    assert not [*powers((16.0, -4.0), dims)], "of a negative number there is no root"
