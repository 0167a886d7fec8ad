"""Rows as codes with one scale each, of int8 or e4m3."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oracles.formula.trace import Node, Outputs, elementary, greatest, point, where
from oracles.op import Op
from oracles.operand import Operand, Parameter

X = Operand("x", "... n", values="coded")
SCALE = Operand("scale", "...", dtype="f32")
OF_ZEROS = Parameter("of_zeros", (0.0, 1.0), neutral=0.0, least=0.0)
"""The parameter that is the scale of a row of zeros."""


def quantize_rows(x: Node, *, of_zeros: Node | float = 0.0) -> Outputs:
    """scale = max(abs(x)) / 127, or of_zeros for a row of zeros. q = x / scale, rounded to nearest even and limited to
    -128 and 127; 0 for a row of zeros."""
    most, scale, over = scaled(x, 127.0, of_zeros)
    code = elementary("round")(over)
    high = where(code > 127.0, 127.0, code)
    return {"q": where(most == 0.0, 0.0, where(high < -128.0, -128.0, high)), "scale": scale}


def scaled(x: Node, top: float, of_zeros: Node | float) -> tuple[Node, Node, Node]:
    """Return the largest magnitude of each row, its scale, and its elements divided by the scale. Scale and quotients
    are points, since a kernel has them in its dtype, so that all kernels that divide once round to the same codes."""
    most = greatest(abs(x), "n")
    step = most / top
    scale = where(most == 0.0, of_zeros, point(step))
    ratio = x / scale
    return most, scale, point(ratio)


def algorithms(top: float) -> Mapping[str, Mapping[str, Callable[..., Node]]]:
    """Return other algorithms to divide elements by their scale: times its reciprocal, or times top / magnitude."""
    return {"ratio": {"reciprocal": lambda x, scale: x * (1.0 / scale), "inverse": lambda x, most: x * (top / most)}}


QUANTIZE_ROWS = Op(
    quantize_rows, inputs=(X,), outputs=(Operand("q", "... n", dtype="int8"), SCALE), parameters=(OF_ZEROS,),
    least={"n": 1}, algorithms=algorithms(127.0), summary="rows as whole numbers of 8 bits, and their scales",
)  # fmt: skip


MOST = 448.0
"""The largest number of e4m3fn, which has no infinity: a larger number becomes NaN unless it is limited first."""


def quantize_rows_e4m3(x: Node, *, of_zeros: Node | float = 0.0) -> Outputs:
    """scale = max(abs(x)) / 448, or of_zeros for a row of zeros. q = x / scale, limited to -448 and 448; 0 for a row of
    zeros."""
    most, scale, over = scaled(x, MOST, of_zeros)
    high = where(over > MOST, MOST, over)
    return {"q": where(most == 0.0, 0.0, where(high < -MOST, -MOST, high)), "scale": scale}


QUANTIZE_ROWS_E4M3 = Op(
    quantize_rows_e4m3, inputs=(X,), outputs=(Operand("q", "... n", dtype="e4m3fn"), SCALE), parameters=(OF_ZEROS,),
    least={"n": 1}, algorithms=algorithms(MOST), summary="rows as floats of 8 bits, and their scales",
)  # fmt: skip
