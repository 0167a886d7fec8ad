"""Op `cross_entropy_backward`: the gradient of `cross_entropy` with respect to the logits."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, exp, extent, greatest, log, position, total, where
from oracles.op import Op
from oracles.operand import Flip, Operand
from oracles.ops.cross_entropy import IGNORED, LABEL, SMOOTHING, Z
from oracles.ops.logsumexp import OPEN, finite
from oracles.ops.rms_norm_backward import DX
from oracles.ops.softmax import LOGITS

DLOSS = Operand("dloss", "...", values="gradient", dtype="f32")
LSE = Operand("lse", "...", True, values="local", dtype="f32")


def cross_entropy_backward(
    x: Node, label: Node, dloss: Node, lse: Node | None = None, *, smoothing: Node | float = 0.0, z: Node | float = 0.0
) -> Outputs:
    """With p = exp(x - lse): dx = dloss (p (1 + 2 z lse) - (1 - smoothing) [the label's] - smoothing / n), and 0 where
    the label is -100. lse is an input, or calculated from x; for a row whose maximum is infinite see `logsumexp`."""
    if lse is None:
        most = greatest(x, "n")
        mass = total(exp(x - most), "n")
        e, lse = exp(x - most), log(mass) + most
        p = e / mass
    else:
        p = exp(x - lse)
    pulled = where(z > 0.0, p + 2.0 * z * lse * p, p)
    even = where(smoothing > 0.0, pulled - smoothing / extent("n"), pulled)
    slope = where(position("n") == label, even - (1.0 - smoothing), even)
    return {"dx": where(label == IGNORED, 0.0, dloss * slope)}


OP = Op(
    cross_entropy_backward, inputs=(LOGITS, LABEL, DLOSS, LSE), outputs=(DX,), parameters=(SMOOTHING, Z),
    aliases=(("dx", "x"),), flips=(Flip(("dloss",), ("dx",), zeros=True),), scaling={"dloss": 1, "dx": 1},
    algorithms={"most": {"finite": finite}}, open_ways=OPEN,
    summary="gradient of cross_entropy by the logits",
)  # fmt: skip
