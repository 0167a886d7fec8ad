"""Softmax of the largest logits of each row, taken before or after the softmax."""

from __future__ import annotations

from oracles.formula.trace import Node, Outputs, exp, extent, floor, greatest, topk, total, where
from oracles.op import Op
from oracles.operand import Operand, Parameter
from oracles.ops.softmax import LOGITS, ONLINE

WEIGHT = Operand("weight", "... k", dtype="f32")
EXPERT = Operand("expert", "... k", dtype="int64")
RENORMALISE = Parameter("renormalise", (0.0, 1.0), neutral=0.0, least=0.0)
"""The parameter that is 1 if the weights of a row are divided by their sum."""
MODELS = ({"n": 8}, {"n": 16}, {"n": 60}, {"n": 64}, {"n": 128}, {"n": 256})


def chosen() -> Node:
    """Return k, the number of places taken of n: all of 1 or 2, 4 of 8, and 8 of 64 or more, as in models. Kernels get
    k by the shape of their outputs."""
    return floor((9.0 * extent("n") + 2.0) / (extent("n") + 8.0))


def topk_softmax(x: Node, *, renormalise: Node | float = 0.0) -> Outputs:
    """The k largest elements of exp(x - max(x)) / sum(exp(x - max(x))), the largest first, and their places. Of equal
    elements any may come first. With renormalise = 1 they are divided by their sum."""
    e = exp(x - greatest(x, "n"))
    mass = total(e, "n")
    p = e / mass
    largest, places = topk(p, chosen(), "n")
    kept = total(largest, "k")
    return {"weight": where(renormalise > 0.0, largest / kept, largest), "expert": places}


TOPK_SOFTMAX = Op(
    topk_softmax, inputs=(LOGITS,), outputs=(WEIGHT, EXPERT), parameters=(RENORMALISE,), least={"n": 1},
    algorithms={"p": {"reciprocal": lambda e, mass: e * (1.0 / mass)}, "mass": ONLINE}, shapes=MODELS,
    summary="the largest probabilities of rows of logits, and their places",
)  # fmt: skip


def softmax_of_topk(x: Node) -> Outputs:
    """weight = exp(v - max(v)) / sum(exp(v - max(v))) for the k largest elements v of x, the largest first, and their
    places. Of equal elements the one at the lowest place comes first."""
    largest, places = topk(x, chosen(), "n", ties="first")
    e = exp(largest - greatest(largest, "k"))
    mass = total(e, "k")
    return {"weight": e / mass, "expert": places}


SOFTMAX_OF_TOPK = Op(
    softmax_of_topk, inputs=(LOGITS,), outputs=(WEIGHT, EXPERT), least={"n": 1},
    algorithms={"weight": {"reciprocal": lambda e, mass: e * (1.0 / mass)}}, shapes=MODELS,
    summary="softmax of the largest logits of rows, the first of equal ones first, and their places",
)  # fmt: skip
