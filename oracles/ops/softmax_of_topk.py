"""Op `softmax_of_topk`: the softmax of the k largest logits of each row, and their places."""

from oracles.formula.trace import Node, Outputs, exp, greatest, topk, total
from oracles.op import Op
from oracles.ops.softmax import LOGITS
from oracles.ops.topk_softmax import EXPERT, MODELS, WEIGHT, chosen


def softmax_of_topk(x: Node) -> Outputs:
    """weight = exp(v - max(v)) / sum(exp(v - max(v))) for the k largest elements v of x, the largest first, and their
    places. Of equal elements the one at the lowest place comes first."""
    largest, places = topk(x, chosen(), "n", ties="first")
    e = exp(largest - greatest(largest, "k"))
    mass = total(e, "k")
    return {"weight": e / mass, "expert": places}


OP = Op(
    softmax_of_topk, inputs=(LOGITS,), outputs=(WEIGHT, EXPERT), least={"n": 1},
    algorithms={"weight": {"reciprocal": lambda e, mass: e * (1.0 / mass)}}, shapes=MODELS,
    summary="softmax of the largest logits of rows, the first of equal ones first, and their places",
)  # fmt: skip
