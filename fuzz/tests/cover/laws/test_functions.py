"""What laws count on of elementary functions: how large values become, and what scales and signs do to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fuzz.core.laws.symmetry import check_symmetries
from oracles.elementary.function import Elementary
from oracles.elementary.functions import members
from oracles.formula.trace import Node, Outputs, elementary
from oracles.op import Op
from oracles.operand import Flip, Operand, OpError

FUNCTIONS = members()
every_function = pytest.mark.parametrize("of", FUNCTIONS.values(), ids=FUNCTIONS)


def _op(of: Elementary, *, zeros: bool, even: bool) -> Op:
    def applied(x: Node) -> Outputs:
        return {"y": elementary(of.name)(x, of.constant)}

    x, y = (Operand("x", "... n"),), (Operand("y", "... n"),)
    return Op(applied, x, y, flips=(Flip(("x",), () if even else ("y",), zeros=zeros),))


@pytest.mark.some(20)
@every_function
def test_values_lie_between_the_exponents_that_are_stated(of: Elementary) -> None:
    random = np.random.default_rng(3)
    exponents = random.integers(-149, 128, 400)
    x = (random.uniform(1, 2, 400) * 2.0**exponents * random.choice([-1, 1], 400)).astype(np.float32)
    with np.errstate(all="ignore"):
        y = of.float64.value(x.astype(np.float64)).astype(np.float32)
    for exponent, value in zip(exponents.tolist(), np.abs(y).tolist(), strict=True):
        if 0 < value < math.inf:
            least, high = of.reach(exponent, exponent + 1)
            assert 2.0**least <= value <= 2.0**high, (exponent, value)


@every_function
def test_a_function_of_a_degree_scales_bit_for_bit(of: Elementary) -> None:
    if of.degree is None:
        return
    x = np.random.default_rng(4).normal(size=1000)
    for power in (-40, 2, 6):
        scaled = of.float64.value(x * 2.0**power)
        assert np.array_equal(scaled, of.float64.value(x) * 2.0 ** (power * of.degree), equal_nan=True)


@every_function
def test_only_the_symmetries_of_a_function_can_be_stated(of: Elementary) -> None:
    for even in (False, True):
        op = _op(of, zeros=True, even=even)
        if of.parity == ("even" if even else "odd"):
            check_symmetries(op)
        else:
            with pytest.raises(OpError, match="flips: with x negated y is"):
                check_symmetries(op)


def test_a_sign_that_zeros_lose_is_no_symmetry_of_them() -> None:
    check_symmetries(_op(FUNCTIONS["round"], zeros=False, even=False))
    with pytest.raises(OpError, match=r"flips: sign is \+0 whatever the sign of its zeros: y needs zeros=True"):
        check_symmetries(_op(FUNCTIONS["sign"], zeros=False, even=False))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"flips": ({"x": "y"},)}, r"halved: flips: \{'x': 'y'\} is no Flip\(\('x',\), \('y',\)\)"),
        ({"scaling": ("x",)}, r"halved: scaling: \('x',\) is no power by tensor"),
    ],
)
def test_what_is_no_flip_and_no_power_is_refused_in_one_line(declared: dict[str, Any], said: str) -> None:
    def halved(x: Node) -> Outputs:
        return {"y": x / 2.0}

    with pytest.raises(OpError, match=said):
        Op(halved, (Operand("x", "... n"),), (Operand("y", "... n"),), **declared)
