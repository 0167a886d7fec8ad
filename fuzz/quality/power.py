"""How small a wrong term the oracle still catches, beside the default tolerances of torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Annotated

import numpy as np
import typer

from fuzz.campaign.tolerance import PLAIN, TORCH, Tolerance, plain, usual
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.core.base.errors import UsageError
from fuzz.quality.subjects import Returned, chosen, simulated
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.doubledouble import F64, head
from oracles.dtypes import NARROW, SINGLE, Format, form
from oracles.enclosure import Enclosure, Mask, compare
from oracles.formula.contract import Contract
from oracles.formula.trace import Node, Trace, ordered
from oracles.lazy import lazy
from oracles.op import Op
from oracles.rounding import round_to
from oracles.tiers.problem import FormulaProblem

_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


Change = Callable[[F64, float], F64]
"""Returns values changed by a given size."""


@dataclass(frozen=True, eq=False)
class ScaledMutant:
    """A kernel that is wrong in one thing; the larger `size`, a power of two, the more wrong it is."""

    words: str
    """What is wrong, with the size as d or k ulp."""
    trace: Trace
    node: Node
    """The node whose value is changed."""
    change: Change
    exponents: range
    """The exponents of sizes that make sense."""
    of_parameter: bool = False


def mutants(problem: FormulaProblem, contract: Contract) -> Iterator[ScaledMutant]:
    """Yield a mutant for each thing that can be wrong with a kernel of this formula."""
    trace = problem.formulas(contract)[0].trace
    for node in trace.nodes:
        if node.kind in ("sum", "dot"):
            yield _term_of(trace, node)
        elif node.kind in ("add", "subtract") and any(each.kind == "tensor" for each in ordered([node])):
            yield from _summands_of(trace, node)  # a value made of positions alone says where, not how much
        elif node.kind == "pair" or (node.kind == "function" and not node.is_exact):
            dtype = form(contract.dtypes.get(trace.names.get(node, ""), contract.compute))
            yield ScaledMutant(f"{_text(trace, node)} off by k ulp", trace, node, _off_by_ulp(dtype), range(24))
        elif node.kind == "parameter" and problem.parameters[node.label] and trace.uses[node]:
            yield ScaledMutant(f"{node.label} times 1 + d", trace, node, _scaled, range(-26, 11), of_parameter=True)
    for name, node in trace.outputs.items():
        dtype = form(contract.dtypes.get(trace.names.get(node, ""), contract.compute))
        yield ScaledMutant(f"last operation of {name} off by k ulp", trace, node, _off_by_ulp(dtype), range(24))


def _term_of(trace: Trace, node: Node) -> ScaledMutant:
    """Return the mutant in which a term of a sum, the last nonzero one, is too small; with size 1 it is left out."""
    around, point = _around(trace, node, 0)
    axes = tuple(axis for axis, dim in enumerate(trace.dims) if dim in node.over)

    def change(values: F64, size: float) -> F64:
        places = np.arange(math.prod(values.shape[axis] for axis in axes))
        places = places.reshape([extent if axis in axes else 1 for axis, extent in enumerate(values.shape)])
        places = np.where(values != 0.0, places, -1)
        last = (places >= 0) & (places == places.max(axes, keepdims=True, initial=-1))
        return np.where(last, values * (1.0 - size), values)

    return ScaledMutant(f"a term of {_text(trace, node)} times 1 - d", around, point, change, range(-26, 1))


def _summands_of(trace: Trace, node: Node) -> Iterator[ScaledMutant]:
    for place, arg in enumerate(node.args):
        inner = arg.args[0] if arg.kind == "point" else arg
        if inner.kind not in ("parameter", "constant"):
            around, point = _around(trace, node, place)
            words = f"{_text(trace, arg)} in {_made_for(trace, node)} times 1 + d"
            yield ScaledMutant(words, around, point, _scaled, range(-26, 1))


def _scaled(values: F64, size: float) -> F64:
    return values * (1.0 + size)


def _off_by_ulp(dtype: Format) -> Change:
    """Return the change by a number of units in the last place, up or down at random."""

    def change(values: F64, size: float) -> F64:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], values.shape)
        exponents = np.maximum(np.frexp(values)[1] - dtype.precision, dtype.emin - dtype.precision + 1)
        return np.where(np.isfinite(values), round_to(values + signs * size * np.ldexp(1.0, exponents), dtype), values)

    return change


def _around(trace: Trace, of: Node, place: int) -> tuple[Trace, Node]:
    """Return the same graph with a node of its own for one use of a value: a point at which nothing is rounded."""
    taken, points = dict[Node, Node](), list[Node]()
    for each in ordered([*trace.outputs.values(), *trace.locals.values()]):
        args = [taken[arg] for arg in each.args]
        if each is of:
            points.append(Node("point", (args[place],), args[place].dims))
            args[place] = points[0]
        same = all(new is before for new, before in zip(args, each.args, strict=True))
        taken[each] = each if same else replace(each, args=tuple(args))
    outputs = {name: taken[node] for name, node in trace.outputs.items()}
    return replace(trace, outputs=outputs, locals={name: taken[node] for name, node in trace.locals.items()}), points[0]


def _made_for(trace: Trace, node: Node) -> str:
    """Return the name of a value, or of its first use."""
    while node not in trace.names and trace.uses[node]:
        node = trace.uses[node][0]
    return trace.names.get(node) or next(name for name, each in trace.outputs.items() if each is node)


def _text(trace: Trace, node: Node) -> str:
    """Return the name of a value, or its expression in terms of named ones."""
    if node in trace.names:
        return trace.names[node]
    if node.kind == "constant":
        return f"{node.value:g}"
    args = [_text(trace, arg) for arg in node.args]
    if node.kind in _SIGNS:
        text = f" {_SIGNS[node.kind]} ".join(args)
        return f"({text})" if node.kind in ("add", "subtract") else text
    if node.kind == "point":
        return args[0]
    return f"{node.operation}({', '.join(args)})" if args else node.label


_NEAR_PARAMETER = "near_threshold"
"""The recipe of rows on which a parameter that is added to their mean squares matters."""
Judge = Callable[[Returned], float]
"""Returns the largest share of rows, or of columns, of an output that fail."""
_SIMULATED = (SINGLE.name, *NARROW)
_HALF = 0.5


@dataclass(frozen=True)
class PowerOptions:
    """The options of `python3 -m fuzz.quality power`."""

    op: Annotated[str, typer.Option("--op", help="Only these ops (a glob).")] = "*"
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help=f"{', '.join(_SIMULATED)}. Repeatable.")] = ()
    n: Annotated[tuple[int, ...], typer.Option("--n", min=1, help="Length of rows. Repeatable.")] = ()
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of each length.")] = 32
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class Smallest:
    """The smallest size of something wrong at which at least half of the rows fail, as a power of two; None if they
    never do."""

    op: str
    wrong: str
    dtype: str
    n: int
    caught: int | None
    """The size caught by the conformance sets of the usual contract."""
    torch: int | None
    """The size caught by the default tolerances of torch."""

    @property
    def cell(self) -> str:
        """Both sizes, as a table shows them."""
        return " / ".join("-" if each is None else f"2^{each}" for each in (self.caught, self.torch))


def power(options: PowerOptions) -> Exit:
    """Find the smallest wrong term that is caught: of simulated kernels that are wrong in one thing, by its size."""
    dtypes, lengths = options.dtype or _SIMULATED, options.n or (64, 4096)
    for dtype in dtypes:
        if dtype not in _SIMULATED:
            raise UsageError(f"--dtype {dtype}: no kernels are simulated in it; known: {', '.join(_SIMULATED)}")
    loaded(options.pack)
    err, found = console.progress(), list[Smallest]()
    with err.status("Making kernels wrong ..."):
        for op in chosen(options.op):
            for dtype in dtypes:
                for n in lengths:
                    found += smallest(op, dtype, options.rows, n, options.seed)
    print_table(_table(found, [(dtype, n) for dtype in dtypes for n in lengths]), markdown=options.markdown)
    words = "caught / by torch's default tolerances, in at least half of the rows"
    console.results().print(f"\n{words}; {options.rows} rows, seed {options.seed}", soft_wrap=True)
    write_record(options.json, {"rows": options.rows, "seed": options.seed, "found": [asdict(each) for each in found]})
    return Exit.OK


def smallest(op: Op, dtype: str, rows: int, n: int, seed: int) -> Iterator[Smallest]:
    """Yield the smallest sizes for everything that can be wrong with a kernel of the op. Parameters are changed on rows
    where they matter."""
    for recipe in (PLAIN, _NEAR_PARAMETER):
        subject = Subject(FormulaProblem(plain(op, dtype, rows, n, seed, recipe)), usual(op, dtype), seed)
        judges: list[Judge] = [subject.caught, partial(subject.noticed, TORCH[dtype])]
        for mutant in mutants(subject.problem, subject.contract):
            if mutant.of_parameter == (recipe == _NEAR_PARAMETER):
                returned = lru_cache(partial(subject.returned, mutant))
                sizes = (first(mutant.exponents, returned, judge) for judge in judges)
                yield Smallest(op.name, mutant.words, dtype, n, *sizes)


@dataclass(frozen=True)
class Subject:
    """Rows of an op, which judge outputs."""

    problem: FormulaProblem
    contract: Contract
    seed: int

    @lazy
    def enclosures(self) -> Mapping[str, Enclosure]:
        """Return the conformance sets of the outputs."""
        return self.problem.enclose(self.contract, self.problem.problem.structured)

    def caught(self, got: Returned) -> float:
        """Return the failing share by the conformance sets."""
        return _share(compare(each, got[name]).failing for name, each in self.enclosures.items())

    def noticed(self, tolerance: Tolerance, got: Returned) -> float:
        """Return the failing share by a tolerance around the exact values, rounded."""
        exact = {name: round_to(head(each.centre), each.form) for name, each in self.enclosures.items()}
        return _share(tolerance.failing(got[name], expected) for name, expected in exact.items())

    def returned(self, mutant: ScaledMutant, exponent: int) -> Returned:
        """Return the outputs of a kernel that is wrong by this much."""

        def change(values: F64) -> F64:
            return mutant.change(values, 2.0**exponent)

        return simulated(self.problem, self.contract, self.seed, mutant.trace, {mutant.node: change})


def first(exponents: range, returned: Callable[[int], Returned], judge: Judge) -> int | None:
    """Return the smallest exponent at which at least half fails; at larger ones it does so too."""
    low, high = exponents.start - 1, exponents.stop
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if judge(returned(middle)) >= _HALF else (middle, high)
    return high if high in exponents else None


def _share(failing: Iterable[Mask]) -> float:
    """Return the failing share. A row, or a column, fails where any of its elements does."""
    return max(float(each.reshape(len(each), -1).any(axis=1).mean()) for each in failing)


def _table(found: Sequence[Smallest], columns: Sequence[tuple[str, int]]) -> PlainTable:
    lines: dict[tuple[str, str], dict[tuple[str, int], str]] = {}
    for each in found:
        lines.setdefault((each.op, each.wrong), {})[each.dtype, each.n] = each.cell
    rows = [(*line, *(cells.get(column, "") for column in columns)) for line, cells in lines.items()]
    return PlainTable(("op", "wrong", *(f"{dtype}, n = {n}" for dtype, n in columns)), rows)
