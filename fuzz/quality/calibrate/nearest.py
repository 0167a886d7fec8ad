"""The law of the nearest result: the exact value of each element, rounded once, is right under every contract, since a
kernel that calculates in enough bits returns it. If it is called wrong, the fault is in the tool: in how it reads a
formula, or in what it expects every kernel to round on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from fuzz.campaign.tolerance import usual
from fuzz.quality.subjects import drawn
from fuzz.tasks.check.reference import lenient
from oracles.algorithm import FORMULA, traced
from oracles.doubledouble import F64
from oracles.dtypes import DTYPES, NARROW, Integer, judged
from oracles.formula.contract import INPUT, MAYBE, Contract
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Exact, Inputs, evaluate
from oracles.formula.trace import Node, Outputs, elementary, greatest, total, where
from oracles.op import Op
from oracles.operand import Operand, Parameter
from oracles.precise import MOST, START, conforms
from oracles.problem import Problem
from oracles.rounding import round_precise, round_to, stored_as
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth

_MOST_ROWS, _MOST_LENGTH, _MOST_SHORT = 3, 9, 3
"""The extents of problems; the last one is for problems of more than two dimensions. Faults show in single elements,
each of which mpmath calculates."""
_MOST_PLACES = 1 << 12
"""The most elements of a problem's whole index space. References that fix larger extents are left out: 12 problems of
3,840 take 6 s already, as mpmath calculates each element."""
_MOST_WAYS = 24
"""The most combinations of algorithms, each of which the precise tier calculates. Attention's 288 took 12 GB."""


@dataclass(frozen=True)
class Accused:
    """An exact value, rounded once, that the oracle says is wrong."""

    problem: Problem
    contract: Contract
    output: str
    index: tuple[int, ...]
    got: float
    precise: bool
    """Whether the precise tier calls it wrong, and not the check of the whole output."""

    def __str__(self) -> str:
        at = ", ".join(map(str, self.index))
        tier = "the precise tier" if self.precise else "a check"
        return f"{self.problem.op} {self.problem.digest[:16]}: {tier} accuses {self.output}[{at}] = {self.got!r}"


def accused(op: Op, dtypes: Sequence[str], cases: int, seed: int, most_places: int = _MOST_PLACES) -> Iterator[Accused]:
    """Draw problems of an op with any recipes, parameters and operands, and yield the exact values, rounded once, that
    are called wrong under the contract of a plain kernel and with nothing declared."""
    most = _MOST_LENGTH if len(op.named) < 3 else _MOST_SHORT
    few = dict.fromkeys((dim for dim in op.named if dim != op.row and dim not in op.made), 2)
    for number in range(cases):
        dice, dtype = np.random.default_rng([seed, number]), dtypes[number % len(dtypes)]
        rows, n = int(dice.integers(1, _MOST_ROWS + 1)), int(dice.integers(1, most + 1))
        problem = _without_signs(drawn(op, dtype, rows, n, int(dice.integers(1 << 31)), few))
        contracts = usual(op, dtype), without(op), without(op, strict=True)
        yield from accused_of(problem, contracts[number // len(dtypes) % 3], most_places)


def without(op: Op, *, strict: bool = False) -> Contract:
    """Return the contract by which a kernel that declares nothing is judged: it may round where the formula says that
    some do, and use any of its algorithms, for as many locals as there is room for. Only with `strict` numbers that
    overflow or are subnormal are judged."""
    trace = traced(op, [*(each.name for each in op.operands), *(each.name for each in op.parameters)])
    points = dict.fromkeys((trace.names[node.args[0]] for node in trace.nodes if node.kind == "point"), MAYBE + INPUT)
    algorithm, count = dict[str, tuple[str, ...]](), 1
    for local, ways in op.algorithms.items():
        if count * (len(ways) + 1) <= _MOST_WAYS:
            algorithm[local] = FORMULA, *ways
            count *= len(ways) + 1
    return replace(lenient(op, "torch", strict=strict), points=points, algorithm=algorithm)


def _without_signs(problem: Problem) -> Problem:
    """Return the problem without negative zeros, which mpmath lacks."""
    given = {name: np.where(each == 0, np.zeros((), each.dtype), each) for name, each in problem.inputs.items()}
    return replace(problem, inputs=given)


def accused_of_formulas(numbers: range, seed: int) -> Iterator[Accused]:
    """Make the formulas of these numbers at random, and yield what is accused of a problem of each."""
    for number in numbers:
        dice = np.random.default_rng([seed, number])
        op, dtype = _made(seed, number), ("f32", "f32", "bf16", "f64", "f16")[number % 5]
        shape = int(dice.integers(1, _MOST_ROWS + 1)), int(dice.integers(1, _MOST_LENGTH + 1))
        given = {each.name: _values(dice, shape).astype(stored_as(dtype)) for each in op.inputs}
        params = {"scale": float(dice.choice(_NUMBERS))}
        wide = "f32" if dtype in NARROW and number % 2 else dtype
        problem = _without_signs(Problem(op.name, params, given, {"out": wide}, structured=True, known=op))
        contract = (Contract(), usual(op, dtype), without(op), without(op, strict=True))[number // 5 % 4]
        yield from accused_of(problem, contract)


_NUMBERS = (0.1, 1e-5, 1.0 / 3.0, 0.7978845608028654, 3.0, 2.0**-20, 16777217.0)
"""Constants and parameters, few of which are numbers of f32."""
_FUNCTIONS = ("exp", "tanh", "sigmoid", "log1p", "abs", "sqrt", "erf", "floor", "rsqrt", "square")


def _made(*seed: int) -> Op:
    """Return a formula of one to seven operations, chosen at random."""

    def formula(p: Node, q: Node, *, scale: Node) -> Outputs:
        dice = np.random.default_rng(seed)
        made = [p, q, scale]
        for _ in range(int(dice.integers(1, 8))):
            a, b = (made[-1 - min(int(dice.geometric(0.5)), len(made)) % len(made)] for _ in range(2))
            made.append(_operation(dice, a, b))
        return {"out": made[-1] + 0.0 * p if made[-1].dims != p.dims else made[-1]}

    formula.__name__ = "_".join(("random", *map(str, seed)))
    operands = Operand("p", "... n"), Operand("q", "... n")
    return Op(formula, operands, (Operand("out", "... n"),), (Parameter("scale", _NUMBERS, neutral=1.0),))


def _operation(dice: np.random.Generator, a: Node, b: Node) -> Node:
    kind, number = int(dice.integers(12)), float(dice.choice(_NUMBERS))
    if kind < 5:
        return (a + b, a - b, a * b, a / (b * b + number), a - number)[kind]
    if kind == 5:
        return where(a <= b, a, number * b)
    if kind == 6 and "n" in a.dims:
        return total(a, "n") if dice.integers(2) else a - greatest(a, "n")
    if kind == 7:
        return number * a
    name = str(dice.choice(_FUNCTIONS))
    if name in ("log1p", "sqrt", "rsqrt"):
        return elementary(name)(a * a)
    return a * a if name == "square" else abs(a) if name == "abs" else elementary(name)(a)


def _values(dice: np.random.Generator, shape: tuple[int, ...]) -> F64:
    """Return values that are normal, far from zero, integers, or next to 1."""
    z = dice.normal(size=shape)
    return (z, z + 1000.0, np.round(4 * z), 1 + np.round(z) * 2.0**-8, z * 64.0)[int(dice.integers(5))]


def accused_of(problem: Problem, contract: Contract, most_places: int = _MOST_PLACES) -> Iterator[Accused]:
    """Yield the numbers among the elements that either tier calls wrong."""
    truth = Truth(problem, confirms=False)
    if math.prod(truth.op.sizes.values()) > most_places:
        return
    right, known = nearest(truth.op)
    for check in truth.check(contract, right):
        if check.mask is not None:
            for index in map(tuple, np.argwhere(check.mask & known[check.output])):
                yield Accused(problem, contract, check.output, index, float(right[check.output][index]), False)
    for name, values in right.items():
        some = [*np.argwhere(known[name])][:1]
        for index in map(tuple, some):
            place = truth.canonical_index(name, tuple(map(int, index)))
            bounds = truth.bounds(contract, name, place, problem.structured, once=True)
            if bounds is not None and not conforms(bounds, float(values[index])):
                yield Accused(problem, contract, name, index, float(values[index]), True)


def nearest(problem: FormulaProblem) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[np.bool_]]]:
    """Return the outputs of a problem, each element rounded once from its exact value, and which of them are numbers:
    the other elements have float64's values."""
    inputs = Inputs(problem.plain.trace, problem.tensors, problem.parameters)
    exact, quick = Exact(inputs), evaluate(inputs, Float64())
    outputs, known = dict[str, NDArray[Any]](), dict[str, NDArray[np.bool_]]()
    for name, dtype in problem.problem.outputs.items():
        node, form = inputs.trace.outputs[name], judged(dtype)
        full = tuple(inputs.extents[dim] if dim in node.dims else 1 for dim in inputs.trace.dims)
        rough = np.broadcast_to(round_to(np.asarray(quick[node], dtype=np.float64), form), full)
        values = np.array(rough)
        numbers = np.zeros(full, bool)
        for index in np.ndindex(full):
            value = _element(exact, node, dict(zip(inputs.trace.dims, index, strict=True)))
            if mpmath.isfinite(value):
                found = round_precise(value, form)
                values[index] = found or np.copysign(0.0, rough[index])
                numbers[index] = np.isfinite(found)
        if isinstance(integer := DTYPES[dtype], Integer):
            numbers &= (values >= integer.lowest) & (values <= integer.highest)
            values = np.where(numbers, values, 0.0)
        with np.errstate(all="ignore"):
            outputs[name] = problem.returned(name, values).astype(stored_as(dtype))
        known[name] = problem.returned(name, numbers.astype(np.float64)) != 0
    return outputs, known


def _element(exact: Exact, node: Any, place: Mapping[str, int]) -> mpmath.mpf:
    with mpmath.workprec(2 * START), np.errstate(all="ignore"):
        found = exact.element(node, place)
        if not exact.vanished:
            return found
    with mpmath.workprec(MOST), np.errstate(all="ignore"):
        return exact.element(node, place)
