"""What it costs to declare nothing: how small a wrong term is caught by a contract, without one, and once measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from statistics import median
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.contracts.guessing import AGAIN
from fuzz.quality.mutants import mutants
from fuzz.quality.power import Judge, Subject, first
from fuzz.quality.subjects import chosen
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from fuzz.uses.check.reference import lenient
from fuzz.uses.tolerance.others import TORCH
from fuzz.uses.tolerance.plain import plain, usual
from oracles.dtypes import NARROW, SINGLE
from oracles.formula.algorithm import FORMULA, traced
from oracles.formula.contract import INPUT, MAYBE, Contract
from oracles.formula.tiers.problem import FormulaProblem
from oracles.op import Op
from oracles.summation import Read, Summation

_DTYPES = (SINGLE.name, *NARROW)


@dataclass(frozen=True)
class UndeclaredOptions:
    """The options of `python3 -m fuzz.quality undeclared`."""

    op: Annotated[str, typer.Option("--op", help="Only these ops (a glob).")] = "*"
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help=f"{', '.join(_DTYPES)}. Repeatable.")] = ()
    n: Annotated[tuple[int, ...], typer.Option("--n", min=1, help="Length of rows. Repeatable.")] = ()
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of each length.")] = 32
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class Cost:
    """The smallest size of something wrong, as a power of two, at which at least half of the rows fail; None: never."""

    op: str
    wrong: str
    dtype: str
    n: int
    declared: int | None
    undeclared: int | None
    """By sums in any order, lenient functions, and casts that may be taken."""
    measured: int | None
    """By the order that the kernel has, as far as a guess knows it, and the casts that it takes."""
    torch: int | None
    """Within the default tolerances of torch."""


def undeclared(options: UndeclaredOptions) -> Exit:
    """Find what it costs to declare nothing, in powers of two of the smallest wrong term that is caught."""
    loaded(options.pack)
    found, dtypes, lengths = list[Cost](), options.dtype or _DTYPES, options.n or (64, 1024)
    with console.progress().status("Making kernels wrong ..."):
        for op in chosen(options.op):
            for dtype in dtypes:
                for n in lengths:
                    found += costs(op, dtype, options.rows, n, options.seed)
    print_table(_table(found, [(dtype, n) for dtype in dtypes for n in lengths]), markdown=options.markdown)
    words = (
        "powers of two by which the smallest wrong term that is caught grows where nothing is declared / once measured "
        "/ by torch's default tolerances, the middle one of all that can be wrong; in brackets those that only a "
        "declared contract catches"
    )
    console.results().print(f"\n{words}; {options.rows} rows, seed {options.seed}", soft_wrap=True)
    write_record(options.json, {"rows": options.rows, "seed": options.seed, "found": [asdict(each) for each in found]})
    return Exit.OK


def costs(op: Op, dtype: str, rows: int, n: int, seed: int) -> Iterator[Cost]:
    """For everything that can be wrong with a kernel of the op but its parameters."""
    declared = Subject(FormulaProblem(plain(op, dtype, rows, n, seed)), usual(op, dtype), seed)
    loose = without(op)
    tight = narrowed(loose, declared)
    subjects = [declared, replace(declared, contract=loose), replace(declared, contract=tight)]
    judges: list[Judge] = [*(each.caught for each in subjects), partial(declared.noticed, TORCH[dtype])]
    for mutant in mutants(declared.problem, declared.contract):
        if not mutant.of_parameter:
            returned = lru_cache(partial(declared.returned, mutant))
            sizes = (first(mutant.exponents, returned, judge) for judge in judges)
            yield Cost(op.name, mutant.words, dtype, n, *sizes)


def without(op: Op, *, strict: bool = False) -> Contract:
    """Return what a kernel of an op is judged by that declares nothing: it may round where the formula says that some
    do, and take any of its algorithms. Only where it is `strict` numbers that overflow or are subnormal are judged."""
    trace = traced(op, [*(each.name for each in op.operands), *(each.name for each in op.parameters)])
    points = dict.fromkeys((trace.names[node.args[0]] for node in trace.nodes if node.kind == "point"), MAYBE + INPUT)
    algorithm = {local: (FORMULA, *ways) for local, ways in op.algorithms.items()}
    return replace(lenient(op, "torch", strict=strict), points=points, algorithm=algorithm)


def narrowed(loose: Contract, declared: Subject) -> Contract:
    """Return the same as it is measured of a kernel with another contract, all of whose sums are guessed at."""
    sizes, sums = declared.problem.sizes, dict[str, Summation](loose.sums)
    for node in declared.problem.plain.trace.nodes:
        if node.kind in ("sum", "dot"):
            terms = math.prod(sizes[dim] for dim in node.over)
            chain = declared.contract.order("", node.label).chain(terms)
            sums[node.label] = Read(((terms, min(terms, AGAIN * chain)),))
    return replace(loose, sums=sums, points=declared.contract.points)


def _table(found: Sequence[Cost], columns: Sequence[tuple[str, int]]) -> PlainTable:
    lines: dict[str, dict[tuple[str, int], list[Cost]]] = {}
    for each in found:
        lines.setdefault(each.op, {}).setdefault((each.dtype, each.n), []).append(each)
    rows = [(op, *(cell(cells.get(column, ())) for column in columns)) for op, cells in lines.items()]
    return PlainTable(("op", *(f"{dtype}, n = {n}" for dtype, n in columns)), rows)


def cell(costs: Sequence[Cost]) -> str:
    """Return what is lost with nothing declared, once measured, and by torch's tolerances."""
    return " / ".join(_lost(costs, name) for name in ("undeclared", "measured", "torch"))


def _lost(costs: Sequence[Cost], name: str) -> str:
    """Return the middle one of the powers of two that are lost, and how many things are not caught any more."""
    pairs: list[tuple[int, int | None]] = [
        (each.declared, getattr(each, name)) for each in costs if each.declared is not None
    ]
    both = [other - ours for ours, other in pairs if other is not None]
    never = sum(other is None for _, other in pairs)
    said = f"{median(both):g}" if both else "-"
    return f"{said} ({never})" if never else said
