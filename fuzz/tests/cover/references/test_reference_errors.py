"""Whatever a reference does, it is read, or refused in one line; no exception of the reader reaches anyone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from fuzz.references import reading
from fuzz.references.derive import derive
from fuzz.references.dims import MisnamedError, UnreadableError
from fuzz.tests.common.random_references import outcomes


@pytest.mark.some(1)
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_a_random_reference_is_read_or_refused_in_a_line(first: int) -> None:
    found = outcomes(range(first, first + 15))
    assert found["read"]
    assert found["refused"]


def _nothing_of_torch(x: Any) -> None:
    torch.exp(x)


def _nothing_of_numpy(x: Any) -> None:
    np.exp(x)


def _nothing_of_jax(x: Any) -> None:
    jnp.exp(x)


@pytest.mark.parametrize("reference", [_nothing_of_torch, _nothing_of_numpy, _nothing_of_jax])
def test_a_reference_that_returns_none_is_told_to_return(reference: Callable[..., Any]) -> None:
    with pytest.raises(MisnamedError, match="returns None: end it with `return`"):
        derive(reference, "x=n")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (lambda x: x.sum().cumsum(0), "an axis of a number"),
        (lambda x: torch.arange(0) * x.shape[0], "has no elements"),
        (lambda x: x[..., :0], "has no elements"),
        (lambda x: x[..., :0].sum(-1), "reduces what has no elements, whatever the extents: leave that out"),
        (lambda x: x.new_zeros(0).sum() + x, "reduces what has no elements"),
        (lambda x: x.unbind(0), "how many follows from them"),
        (lambda x: x.nosuch(), r"AttributeError \(test_reference_errors.py line \d+\)"),
    ],
)
def test_what_cannot_be_read_says_why(reference: Callable[..., Any], said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        derive(reference, "x=b n")


def _between_ones(x: Any) -> Any:
    ones = torch.ones(x.shape[0], 2)
    return torch.ops.aten.huber_loss.default(ones, ones, x.shape[-1] // 2), x


def _unused_row(x: Any, i: Any) -> Any:
    i.cumprod(1), x[2]
    return torch.arange(i.shape[-1])[:, None] + 0


@pytest.mark.parametrize(
    ("reference", "shapes", "said"),
    [
        (lambda x, w: w[..., : x.shape[0] - x.shape[-1]], "x=b c s, w=c", "has no elements along 'y_axis0'"),
        (lambda x, i: x * 0 + torch.zeros_like(x).scatter_add(0, i, x), "x=b s, i=b t", "fewer places than elements"),
        (_between_ones, "x=b n", "y0 has the shape"),
        (lambda i, w: w[i[:, ::2] + 1], "i=b s, w=v d", r"aten.add \(test_reference_errors.py line \d+\) calculates"),
        (_unused_row, "x=m n, i=m n", r"of x\[2, 3\], i\[2, 3\] it raises IndexError"),
    ],
)
def test_what_random_references_met_is_said(reference: Callable[..., Any], shapes: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        derive(reference, shapes)


def test_an_exception_of_a_rule_is_one_line_with_that_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("m")

    monkeypatch.setattr(reading.Reader, "reduced", broken)
    said = (
        r"aten.sum \(test_reference_errors.py line \d+\) meets a bug of kernelfuzz, .*: KeyError \(.* line \d+\): 'm'"
    )
    with pytest.raises(UnreadableError, match=said):
        derive(lambda x: x.sum(-1), "x=b n")


def test_an_exception_behind_the_rules_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise IndexError("7")

    monkeypatch.setattr("fuzz.references.derive.gates_of", broken)
    with pytest.raises(UnreadableError, match=r"it \(test_reference_errors.py line \d+\) meets a bug of kernelfuzz"):
        derive(lambda x: x.sum(-1), "x=b n")
