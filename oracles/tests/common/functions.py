"""Ops that apply one elementary function each, and problems where it is hard."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from oracles.dtypes import form
from oracles.elementary.function import Elementary
from oracles.formula.contract import Contract, stated
from oracles.formula.trace import Node, Outputs, elementary, total
from oracles.op import Op
from oracles.operand import Operand
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.tests.common.elementary import FUNCTIONS, arguments

_WIDTH = 6
X, G = Operand("x", "... n"), Operand("g", "... n")
LOOSE = Contract("input", accuracy={of.name: of.loose for of in FUNCTIONS.values() if not of.is_exact})
CONTRACTS = (
    Contract("input"),
    LOOSE,
    Contract("input", accuracy=dict.fromkeys(stated(), 0.5)),
    Contract("input", denormals="flush"),
    Contract("input", nonfinite="overflow", zeros="any"),
    Contract("f32", dtypes={"product": "bf16", "mass": "f16"}),
    Contract("input", nonfinite="unspecified"),
    Contract("f32", denormals="flush results"),
)


def _op(place: int, of: Elementary) -> Op:
    def formula(x: Node, g: Node) -> Outputs:
        product = x * g
        mass = total(product, "n")
        return {"y": applied(x, of.constant), "z": applied(product, of.constant) * g, "s": applied(mass, of.constant)}

    applied = elementary(of.name)
    formula.__name__ = f"toy_{of.name}_{place}"
    return Op(formula, (X, G), (Operand("y", "... n"), Operand("z", "... n"), Operand("s", "...")), summary=of.summary)


OPS = {name: _op(place, of) for place, (name, of) in enumerate(FUNCTIONS.items())}
"""An op for each function, by the function's name: of given values, of products, and of sums, that kernels round."""


def problems(name: str, dtype: str, count: int, seed: int) -> Iterator[Problem]:
    """Yield problems of a function's op, with about 10 `count` hard arguments and all limits among them. With factors
    of 1 and next to it products are whole and half numbers and next to those; others are random."""
    of, random, stored = FUNCTIONS[name], np.random.default_rng(seed), STORAGE[dtype]
    limits = [argument for argument, _ in of.limits]
    found = np.concatenate([limits, arguments(of, count, seed), limits])
    x = found[: len(found) // _WIDTH * _WIDTH].reshape(-1, _WIDTH)
    beside = 1 + random.choice([-1, 1, 2], x.shape) * 2 * form(dtype).u
    for g in (np.ones(x.shape), beside, random.normal(size=x.shape)):
        with np.errstate(over="ignore"):
            given = {"x": x.astype(stored), "g": g.astype(stored)}
        yield Problem(OPS[name].name, {}, given, dict.fromkeys(("y", "z", "s"), dtype), structured=True)
