"""Outputs that follow from no input, elements that are written by a mask or at places, and what is refused of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError


def with_constants(x: Any) -> Any:
    return x * 2, torch.ones(3), torch.zeros_like(x), torch.arange(x.shape[1])


def by_mask(x: Any) -> Any:
    y = x.clone()
    y[x < 0] = 3.0
    return y


def by_rows(x: Any, rows: Any) -> Any:
    y = x.clone()
    y[rows] = 3.0
    return y


def hot(x: Any, label: Any) -> Any:
    return torch.zeros_like(x).scatter(1, label[:, None], 3.0) - x


def together(x: Any, z: Any) -> Any:
    return torch.logaddexp(x, z)


def with_one_more(x: Any, first: Any) -> Any:
    return torch.cat([first.expand(x.shape[0], 1), x], 1).softmax(1)


@pytest.mark.parametrize(
    ("reference", "dims", "dtypes", "words"),
    [
        (with_constants, {}, {}, "f.where(f.position(\"y1_axis0\", 3.0) >= 0.0, 1.0, 0.0)"),
        (by_mask, {}, {}, "f.where(x < 0.0, 3.0, x)"),
        (by_rows, {"rows": "b"}, {"rows": "bool"}, "f.where(rows, 3.0, x)"),
        (hot, {"label": "b"}, {"label": "int64"}, "f.position(\"n\") == label"),
        (together, {"z": "b n"}, {}, "f.log1p(f.exp(-abs(x - z)))"),
        (with_one_more, {"first": "one"}, {}, "f.extent(\"n\")"),
    ],
)  # fmt: skip
def test_it_is_read(reference: Callable[..., Any], dims: Mapping[str, str], dtypes: dict[str, str], words: str) -> None:
    found = derive(reference, {"x": "b n", **dims}, dtypes=dtypes, fixed={"one": 1} if "first" in dims else {})
    assert words in found.formula.text


def number_alone(x: Any) -> Any:
    return x, torch.tensor(3.0)


def picked(x: Any) -> Any:
    return x[x > 0]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (number_alone, r"returns 3.0, which no input has to do with"),
        (picked, r"aten.index \(.* line \d+\) picks by a mask"),
    ],
)
def test_it_is_refused(reference: Callable[..., Any], words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        derive(reference, {"x": "b n"})


def columns(x: Any) -> Any:
    """A part of x for each place."""
    return torch.nn.functional.unfold(x, 3, padding=1)


def test_parts_and_copies_of_dimensions_are_called_by_the_axis_of_the_output() -> None:
    found = derive(columns, "x=b c h w")
    assert [each.dims for each in found.op.outputs] == ["b y_axis1 h_w"]
    assert "x[b, c, h, w] -> y[b, y_axis1, h_w]" in found.said
    assert '    """A part of x for each place."""\n' in found.formula.text
