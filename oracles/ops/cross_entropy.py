"""The loss of logits against labels; and the gradient with respect to the logits."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, avg, exp, extent, greatest, log, position, take, total, where
from oracles.op import Op
from oracles.operand import Flip, Operand, Parameter
from oracles.ops.rms_norm import DX
from oracles.ops.rows import OPEN, finite
from oracles.ops.softmax import LOGITS, ONLINE

IGNORED = -100
LABEL = Operand("label", "...", dtype="int64", index="n", missing=IGNORED)
SMOOTHING = Parameter("smoothing", (0.0, 0.1, 0.5, 1.0), neutral=0.0, least=0.0)
"""The share of the target's probability that is spread evenly over all classes."""
Z = Parameter("z", (0.0, 1e-4, 0.125, 1.0), neutral=0.0, least=0.0)
"""The factor of lse^2, which is added to the loss."""
FEWEST = Parameter("fewest", (0.0, 1.0), neutral=0.0, least=0.0, only_with="mean")
"""The least divisor of the mean. If all rows are ignored, the mean is NaN with 0, and 0 with 1."""


def cross_entropy(
    x: Node, label: Node, *, smoothing: Node | float = 0.0, z: Node | float = 0.0, fewest: Node | float = 0.0
) -> Outputs:
    """loss = (1 - smoothing) (lse - x[label]) + smoothing (lse - mean(x)) + z lse^2, lse = log(sum(exp(x))), and 0
    where the label is -100. mean = sum(loss) / the number of other labels. If the maximum of a row is infinite, lse is
    that infinity or NaN, see `logsumexp`, and the loss follows from it."""
    most = greatest(x, "n")
    shifted = x - most
    mass = total(exp(shifted), "n")
    lse = log(mass) + most
    nll = lse - take(x, label, "n", 0.0)
    even = lse - avg(x, "n")
    smooth = (1.0 - smoothing) * nll + smoothing * even
    plain = where(smoothing > 0.0, smooth, nll)
    penalised = where(z > 0.0, plain + z * (lse * lse), plain)
    loss = where(label == IGNORED, 0.0, penalised)
    rows = total(where(label == IGNORED, 0.0, 1.0), "...")
    return {"loss": loss, "lse": lse, "mean": total(loss, "...") / where(rows < fewest, fewest, rows)}


def apart(
    nll: Node, shifted: Node, mass: Node, lse: Node, label: Node, rows: Node, *, smoothing: Node | float = 0.0,
    z: Node | float = 0.0, fewest: Node | float = 0.0,
) -> Node:  # fmt: skip
    """Return the mean of the losses as a sum of means of their parts. For the smoothed part all classes of all rows are
    added, then divided."""

    def averaged(losses: Node) -> Node:
        return total(where(label == IGNORED, 0.0, losses), "...") / where(rows < fewest, fewest, rows)

    plain = averaged(nll)
    even = averaged(-total(shifted - log(mass), "n"))
    smooth = where(smoothing > 0.0, (1.0 - smoothing) * plain + even * (smoothing / extent("n")), plain)
    return where(z > 0.0, smooth + z * averaged(lse * lse), smooth)


SHIFTED = {"shifted": lambda shifted, label, mass: log(mass) - take(shifted, label, "n", 0.0)}
CROSS_ENTROPY = Op(
    cross_entropy, inputs=(LOGITS, LABEL), parameters=(SMOOTHING, Z, FEWEST),
    outputs=(Operand("loss", "..."), Operand("lse", "...", True, dtype="f32"), Operand("mean", "", True, dtype="f32")),
    algorithms={"most": {"finite": finite}, "mass": ONLINE, "nll": SHIFTED,
                "even": {"shifted": lambda shifted, mass: log(mass) - avg(shifted, "n"),
                         "weighted": lambda shifted, mass: total((log(mass) - shifted) / extent("n"), "n"),
                         "summed": lambda shifted, mass: -(total(shifted - log(mass), "n")) / extent("n")},
                "mean": {"apart": apart}},
    open_ways=OPEN,
    summary="losses of rows of logits and their labels, and the mean of those that count",
)  # fmt: skip


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


CROSS_ENTROPY_BACKWARD = Op(
    cross_entropy_backward, inputs=(LOGITS, LABEL, DLOSS, LSE), outputs=(DX,), parameters=(SMOOTHING, Z),
    aliases=(("dx", "x"),), flips=(Flip(("dloss",), ("dx",), zeros=True),), scaling={"dloss": 1, "dx": 1},
    algorithms={"most": {"finite": finite}}, open_ways=OPEN,
    summary="gradient of cross_entropy by the logits",
)  # fmt: skip
