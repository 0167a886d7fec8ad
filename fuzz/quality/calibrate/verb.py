"""`python3 -m fuzz.quality calibrate`: whether correct kernels of any contract pass, and how far they stray.

The law of the nearest result: the exact value of each element, rounded once, is right under every contract, since a
kernel that calculates in enough bits returns it. If it is called wrong, the fault is in the tool: in how it reads a
formula, or in what it expects every kernel to round on the way.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import mpmath
import numpy as np
import typer
from numpy.typing import NDArray
from rich.progress import track

from fuzz.campaign.parallel import spread_answers
from fuzz.campaign.starting import writable
from fuzz.campaign.tolerance import usual
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.quality.calibrate.measure import Calibrated, ContractMeasurement, calibrated, carried_out, work_list
from fuzz.quality.subjects import chosen, drawn
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.tasks.check.reference import lenient
from oracles.algorithm import FORMULA, traced
from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, DTYPES, NARROW, SINGLE, Integer, judged
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


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of `python3 -m fuzz.quality calibrate`."""

    op: Annotated[str, typer.Option("--op", help="Ops (a glob).")] = "*"
    runs: Annotated[int, typer.Option("--runs", min=1, help="Judged runs of each op, at least.")] = 20_000
    max_time: Annotated[
        float | None,
        options.timed(
            "--max-time",
            "30s|5m|8h",
            "Take about this long: the contracts share it, and those that are not reached count as not run.",
        ),
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the first contract's cases.")] = 1
    nearest: Annotated[
        int,
        typer.Option("--nearest", min=0, help="Cases of exact values rounded once, half of them of random formulas."),
    ] = 12_000
    jobs: options.Processes = 0
    output: Annotated[Path, typer.Option("--output", help="Folder for the kernels, a pack for each contract.")] = Path(
        "calibration"
    )
    pack: options.PackFolder = None
    full: Annotated[bool, typer.Option("--full", help="A line for each contract too.")] = False
    markdown: options.Markdown = False


def calibrate(options: CalibrateOptions) -> Exit:
    """Judge correct kernels under contracts in which any two values of two fields meet; exit code 1 for an alarm.

    For each contract there is a kernel that is simulated from the op's formula. Its cases are those of an ordinary
    search. What is accused is a false alarm: it is printed with the commands that show it again. So are exact values,
    rounded once, that are accused: of all ops, and of formulas made at random.
    """
    out, err, started = console.results(), console.progress(), time.monotonic()
    if options.pack is not None:
        loaded(options.pack)
    ops, folder = chosen(options.op), writable(options.output)
    listed = work_list(ops, options.runs, options.seed, folder, options.pack)
    work = carried_out(listed, options.jobs or os.cpu_count() or 1, options.max_time or math.inf)
    every, interrupted = list[ContractMeasurement](), False
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit from outside counts like Ctrl-C
    try:
        for measured in track(work, "Judging correct kernels", total=len(listed), console=err, transient=True):
            every.append(measured)
            if measured.found:
                err.print(f"{measured.op}, contract {measured.number}: {measured.found} false alarms", style="red")
    except KeyboardInterrupt:  # what was judged so far is reported
        interrupted = True
    found = [calibrated(op, [each for each in every if each.op == op.name]) for op in ops]
    rows = [row for each in found for row in _rows(each, full=options.full)]
    print_table(PlainTable(_COLUMNS, rows + [_row("all", found)] * (len(found) > 1)), markdown=options.markdown)
    for each in found:
        for reason, count in each.missing.items():
            out.print(f"{each.op}: {count:,} pairs not run: {reason}", soft_wrap=True)
    for measured in every:
        for text in measured.alarms:
            out.print(f"\n{text}\n  under {measured.contract}", soft_wrap=True)
        if measured.undecided:
            out.print(f"\nthe oracle gave up {measured.gave_up} times, the last time here:", soft_wrap=True)
            out.print(f"  {measured.undecided}\n  under {measured.contract}", soft_wrap=True)
    nearest = () if interrupted else _nearest(options, ops)
    for accusation in nearest:
        out.print(f"\n{accusation}", soft_wrap=True)
    alarms, runs = sum(each.total("found") for each in found) + len(nearest), sum(each.total("runs") for each in found)
    met, missing = sum(each.covered for each in found), sum(sum(each.missing.values()) for each in found)
    took = time.monotonic() - started
    out.print(
        f"\n{runs:,} judged runs, {sum(each.total('elements') for each in found):,} elements, {met:,} pairs met and "
        f"{missing:,} not run, {alarms} false alarms, {sum(each.total('gave_up') for each in found)} undecided, seed "
        f"{options.seed}, {took:,.0f} s",
        soft_wrap=True,
    )
    if interrupted and not alarms:
        raise KeyboardInterrupt
    return Exit.FINDINGS if alarms else Exit.OK if runs else Exit.NOTHING_RAN


def _nearest(options: CalibrateOptions, ops: Sequence[Op]) -> Sequence[str]:
    """What is accused of the exact values, rounded once, of these ops and of formulas made at random, in words."""
    half = options.nearest - options.nearest // 2
    each_op, dtypes = -(-half // len(ops)), (SINGLE.name, DOUBLE.name, *NARROW)
    pieces = [range(first, min(first + _PIECE, half)) for first in range(0, half, _PIECE)]
    work: list[Op | range] = [*ops, *pieces]

    def ask(item: Op | range) -> list[str]:
        found = accused_of_formulas(item, options.seed) if isinstance(item, range) else (
            accused(item, dtypes, each_op, options.seed)
        )  # fmt: skip
        return [*map(str, found)]

    answers = spread_answers(
        work, ask, list[str], options.jobs or os.cpu_count() or 1, lambda: False,
        lambda item: "random formulas" if isinstance(item, range) else item.name, "ended from outside",
    )  # fmt: skip
    progress = track(answers, "Rounding exact values", total=len(work), console=console.progress(), transient=True)
    found = [*chain.from_iterable(progress)]
    console.results().print(
        f"\n{options.nearest:,} cases of exact values rounded once, of {len(ops)} ops and of random formulas: "
        f"{len(found)} accused", soft_wrap=True,
    )  # fmt: skip
    return found


_PIECE = 250
"""Random formulas that a process judges at a time: some 5 s of work."""
_COLUMNS = (
    "op", "contracts", "pairs", "not run", "judged runs", "judged elements", "worst err/budget", "false alarms",
)  # fmt: skip


def _rows(of: Calibrated, *, full: bool) -> list[tuple[str, ...]]:
    lines = [
        ("", each.contract, "", "", f"{each.runs:,}", f"{each.elements:,}", f"{each.ratio:.3g}", str(each.found))
        for each in of.contracts
        if full
    ]  # fmt: skip
    return [_row(of.op, [of]), *lines]


def _row(name: str, every: Sequence[Calibrated]) -> tuple[str, ...]:
    numbers = [sum(len(each.contracts) for each in every), sum(each.covered for each in every)]
    numbers.append(sum(sum(each.missing.values()) for each in every))
    numbers += [sum(each.total(name) for each in every) for name in ("runs", "elements")]
    worst = max(each.ratio for each in every)
    return name, *(f"{each:,}" for each in numbers), f"{worst:.3g}", str(sum(each.total("found") for each in every))
