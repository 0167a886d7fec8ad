"""Op `quantize_rows`: rows as whole numbers of 8 bits, with the scale of each row."""

from collections.abc import Callable, Mapping

from oracles.formula.trace import Node, Outputs, elementary, greatest, point, where
from oracles.op import Op
from oracles.operand import Operand, Parameter

X = Operand("x", "... n", values="coded")
SCALE = Operand("scale", "...", dtype="f32")
OF_ZEROS = Parameter("of_zeros", (0.0, 1.0), neutral=0.0, least=0.0)
"""The scale of a row of zeros."""


def quantize_rows(x: Node, *, of_zeros: Node | float = 0.0) -> Outputs:
    """scale = max(abs(x)) / 127, or of_zeros in a row of zeros; q = x / scale, rounded to nearest even, from -128 to
    127, and 0 in a row of zeros."""
    most, scale, over = scaled(x, 127.0, of_zeros)
    code = elementary("round")(over)
    high = where(code > 127.0, 127.0, code)
    return {"q": where(most == 0.0, 0.0, where(high < -128.0, -128.0, high)), "scale": scale}


def scaled(x: Node, top: float, of_zeros: Node | float) -> tuple[Node, Node, Node]:
    """Return the largest magnitude of each row, its scale, and its elements divided by that. A kernel that divides once
    has numbers of its dtype there, a point at each: rounding to few bits afterwards gives the same in all of them."""
    most = greatest(abs(x), "n")
    step = most / top
    scale = where(most == 0.0, of_zeros, point(step))
    ratio = x / scale
    return most, scale, point(ratio)


def algorithms(top: float) -> Mapping[str, Mapping[str, Callable[..., Node]]]:
    """Return other ways to divide elements by their scale: times its reciprocal, or times top / magnitude."""
    return {"ratio": {"reciprocal": lambda x, scale: x * (1.0 / scale), "inverse": lambda x, most: x * (top / most)}}


OP = Op(
    quantize_rows, inputs=(X,), outputs=(Operand("q", "... n", dtype="int8"), SCALE), parameters=(OF_ZEROS,),
    least={"n": 1}, algorithms=algorithms(127.0), summary="rows as whole numbers of 8 bits, and their scales",
)  # fmt: skip
