"""Op `quantize_rows_e4m3`: rows as floats of 8 bits, with a scale for each row."""

from oracles.formula.trace import Node, Outputs, where
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops.quantize_rows import OF_ZEROS, SCALE, X, algorithms, scaled

MOST = 448.0
"""The largest number of e4m3fn, which has no infinity: a larger number becomes NaN unless it is limited first."""


def quantize_rows_e4m3(x: Node, *, of_zeros: Node | float = 0.0) -> Outputs:
    """scale = max(abs(x)) / 448, or of_zeros for a row of zeros. q = x / scale, limited to -448 and 448; 0 for a row of
    zeros."""
    most, scale, over = scaled(x, MOST, of_zeros)
    high = where(over > MOST, MOST, over)
    return {"q": where(most == 0.0, 0.0, where(high < -MOST, -MOST, high)), "scale": scale}


OP = Op(
    quantize_rows_e4m3, inputs=(X,), outputs=(Operand("q", "... n", dtype="e4m3fn"), SCALE), parameters=(OF_ZEROS,),
    least={"n": 1}, algorithms=algorithms(MOST), summary="rows as floats of 8 bits, and their scales",
)  # fmt: skip
