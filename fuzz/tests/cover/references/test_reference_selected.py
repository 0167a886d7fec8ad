"""What torch selects and rounds is read: places, the largest elements, order, integers and floats of 8 bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fuzz.references.alike import Evaluated
from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from oracles.operand import CODES, Operand


def routed(x: Any) -> Any:
    weights, places = torch.topk(torch.softmax(x, -1), 2)
    return weights / weights.sum(-1, keepdim=True), places


def least(x: Any) -> Any:
    return torch.argmin(x, dim=0, keepdim=True)


def first_of_all(x: Any) -> Any:
    return x.argmax()


def both(x: Any) -> Any:
    return x.max(-1)


def falling(x: Any) -> Any:
    return torch.sort(x, -1, descending=True)


def settled(x: Any) -> Any:
    return torch.argsort(x, dim=-1, stable=True)


def looked_up(table: Any, x: Any) -> Any:
    return table[x.argmax(-1)]


def in_order(x: Any) -> Any:
    return x.gather(-1, x.argsort(-1))


def coded(x: Any) -> Any:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8), scale.squeeze(-1)


def whole(x: Any) -> Any:
    return (x * 4).long(), torch.ceil(x), x > 0.5, (x > 0).sum(-1)


def short(x: Any) -> Any:
    return (x / 448).to(torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("reference", "shapes", "lines", "outputs"),
    [
        (routed, "x=... n", 'f.topk(softmax, 2, "n", "k")[1]', {"y0": ("... k", ""), "places": ("... k", "int64")}),
        (least, "x=m n", 'f.topk(x, 1, "m", "one", "first", largest=False)[1]', {"y": ("one n", "int64")}),
        (first_of_all, "x=n", 'f.argmax(x, "n", "first")', {"y": ("", "int64")}),
        (both, "x=b n", 'f.argmax(x, "n", "first")', {"values": ("b", ""), "indices": ("b", "int64")}),
        (falling, "x=... n", 'f.sort(x, "n", descending=True)[0]',
         {"values": ("... n", ""), "indices": ("... n", "int64")}),
        (settled, "x=... n", 'f.sort(x, "n", "first")[1]', {"y": ("... n", "int64")}),
        (looked_up, "table=n d, x=b n", 'f.take(table, f.argmax(x, "n", "first"), "n")', {"y": ("b d", "")}),
        (in_order, "x=b n", 'f.take(x, f.sort(x, "n")[1], "n")', {"y": ("b n", "")}),
        (coded, "x=... n", "f.round(x / y1)", {"y0": ("... n", "int8"), "y1": ("...", "")}),
        (
            whole, "x=... n", "f.where(t < 0.0, -f.floor(-t), f.floor(t))",
            {"y0": ("... n", "int64"), "y1": ("... n", ""), "y2": ("... n", "bool"), "y3": ("...", "int64")},
        ),
        (short, "x=... n", "x / 448.0", {"y": ("... n", "e4m3fn")}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_the_formula_has_it_and_outputs_have_its_dtypes(
    reference: Callable[..., Any], shapes: str, lines: str, outputs: dict[str, tuple[str, str]]
) -> None:
    """Each is held against the reference in float64, where equal elements have either place."""
    found = derive(reference, shapes)
    assert lines in found.formula.text
    assert {each.name: (each.dims, each.dtype) for each in found.op.outputs} == outputs


def weighed(x: Any, w: Any, scale: Any) -> Any:
    return x @ (w.float() * scale)


def test_numbers_of_8_bits_are_inputs_in_their_own_right() -> None:
    for dtype in ("int8", "uint8"):
        found = derive(weighed, "x=... k, w=k n, scale=n", dtypes={"w": dtype})
        assert found.op.operand("w") == Operand("w", "k n", dtype=dtype, values=CODES)
    with pytest.raises(UnreadableError, match="calculates with 'w', which is of int32 and says no places"):
        derive(weighed, "x=... k, w=k n, scale=n", dtypes={"w": "int32"})


def moved(x: Any) -> Any:
    return x.argmax(-1) * 2


def unsorted(x: Any) -> Any:
    return torch.topk(x, 2, sorted=False).values


def shorts_of(x: Any) -> Any:
    return x.round().to(torch.uint16)


def short_again(x: Any) -> Any:
    return x.to(torch.float8_e4m3fn).float() * 2


def decimals(x: Any) -> Any:
    return torch.round(x, decimals=2)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (unsorted, "returns the largest elements in any order: write sorted=True"),
        (shorts_of, "returns uint16: outputs of integers are int8, int32, int64, bool, uint8, int16"),
        (short_again, "goes on from float8_e4m3fn: formulas round to that at their end"),
        (decimals, "rounds to decimals"),
    ],
)
def test_what_has_no_formula_is_said_in_one_line(reference: Callable[..., Any], said: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        derive(reference, "x=... n")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_made_of_places_is_said_to_be_judged_where_they_are_certain() -> None:
    assert "y not judged where places may be others: made of them by arithmetic" in derive(moved, "x=b n").said


def test_of_equal_elements_either_place_is_the_references() -> None:
    x = np.array([[1.0, 7.0, 7.0, 0.0]])
    found = Evaluated(derive(routed, "x=... n").op, {"x": x})
    for theirs, alike in (([1, 2], True), ([2, 1], True), ([1, 1], False), ([1, 0], False), ([1, 9], False)):
        mine, other = found.comparable("places", np.array([theirs], np.float64))
        assert np.array_equal(mine, other) == alike, theirs


def test_of_nan_no_integer_says_anything() -> None:
    found = Evaluated(derive(coded, "x=... n").op, {"x": np.zeros((1, 2))})
    mine, theirs = found.comparable("y0", np.array([[0.0, 5.0]]))
    assert np.isnan([mine, theirs]).all()


def test_an_order_is_read_with_any_values_and_the_place_of_a_nan_is_left_open() -> None:
    """It was refused: torch takes NaN for the largest, and other libraries do not."""
    found = derive(lambda x: tuple(torch.topk(x, 4, -1)), "x=... n", values="any", name="largest")
    assert "the place of a NaN in an order is not judged" in found.said
    assert "returns something else" not in found.said


WITH_A_ROW = """
from importlib.machinery import SourceFileLoader
from pathlib import Path

row, plain = '    Integer("int16", "int16", 2, -(2**15), 2**15 - 1),\\n', SourceFileLoader.get_code

def with_a_row(loader, name):
    if name != "oracles.dtypes":
        return plain(loader, name)
    more = row + '    Integer("uint16", "uint16", 2, 0, 2**16 - 1),\\n'
    return compile(Path(loader.path).read_text().replace(row, more), loader.path, "exec")

SourceFileLoader.get_code = with_a_row

from fuzz.references.derive import derive
from fuzz.references.replay.cases import Span, spans_of

def weighed(x, w):
    return x @ w.float()

print(derive(weighed, "x=... k, w=k n", dtypes={"w": "uint16"}).op.operand("w").values)
print(spans_of("uint16", None)[0] == Span(0, 2**16 - 1))
"""


def test_a_new_row_of_short_integers_makes_them_numbers_of_formulas_and_of_replays() -> None:
    """They were listed by hand, so that a formula took numbers of 16 bits for places, and a replay did not."""
    command = (sys.executable, "-c", WITH_A_ROW)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [CODES, "True"], done.stderr
