"""How fast the oracle is: the fast tier against the precise one, how seldom it has to ask it, and what it says nothing
of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fuzz.base.errors import UsageError
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.generate.menus import menus_of
from fuzz.quality.subjects import Returned, chosen, kernel_of, simulated
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from fuzz.uses.tolerance.plain import plain, usual
from oracles.doubledouble import head
from oracles.dtypes import COMPUTED, DTYPES, Integer
from oracles.enclosure import compare
from oracles.formula.contract import Contract
from oracles.formula.simulated.simulation import returned
from oracles.formula.tiers.problem import FormulaProblem
from oracles.op import Op
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.rounding import stored_as
from oracles.truth import Truth

_ROWS, _LENGTHS = 4, (7, 70, 1041, 4097)
"""The number and the lengths of the rows whose escalations are counted."""
LENGTHS = (64, 1024, 4096)
_REPEATS = 7


@dataclass(frozen=True)
class TierTimes:
    """Seconds to judge every element of all outputs of one row of `n`."""

    op: str
    dtype: str
    n: int
    fast: float
    """The time for a contract that is seen for the first time, inputs included."""
    again: float
    """The time for another kernel with the same contract."""
    precise: float

    @property
    def ratio(self) -> float:
        """How many times faster the fast tier is."""
        return self.precise / self.fast

    @property
    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        times = f"{self.fast * 1e6:,.0f}", f"{self.again * 1e6:,.0f}", f"{self.precise * 1e6:,.0f}"
        return self.op, self.dtype, str(self.n), *times, f"{self.ratio:,.0f}x"


@dataclass(frozen=True)
class Escalation:
    """How often the fast tier had to ask the precise one on rows of one recipe of the first input."""

    op: str
    dtype: str
    recipe: str
    elements: int
    escalated: int
    open: int
    """The number of elements of which any number is right."""
    undefined: int
    """The number of integers that are made of NaN: C leaves that conversion undefined, so that any of them is right."""
    excused: int
    """The number of others, of which some numbers are right, and NaN or an infinity too."""


@dataclass(frozen=True)
class OracleOptions:
    """The options of `python3 -m fuzz.quality oracle`."""

    op: Annotated[str, typer.Option("--op", help="Only these ops (a glob).")] = "*"
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help=f"{', '.join(COMPUTED)}. Repeatable.")] = ()
    n: Annotated[tuple[int, ...], typer.Option("--n", min=1, help="Length of the row. Repeatable.")] = ()
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None


def oracle(options: OracleOptions) -> Exit:
    """Measure the fast tier of the oracle against the precise one; count what it leaves to that, and what is open."""
    dtypes = options.dtype or ("f32",)
    for dtype in dtypes:
        if dtype not in COMPUTED:
            raise UsageError(f"--dtype {dtype}: unknown dtype; known: {', '.join(COMPUTED)}")
    loaded(options.pack)
    ops, err = chosen(options.op), console.progress()
    with err.status("Measuring both tiers ..."):
        timings = [each for op in ops for dtype in dtypes for each in tiers(op, dtype, options.n, options.seed)]
    columns = ("op", "dtype", "n", "fast us", "same contract again us", "precise us", "precise/fast")
    print_table(PlainTable(columns, [each.cells for each in timings]), markdown=options.markdown)
    console.results().print()
    with err.status("Judging correct outputs of every recipe ..."):
        shares = [each for op in ops for dtype in dtypes for each in escalations(op, dtype, options.seed)]
    print_table(_by_op(shares), markdown=options.markdown)
    names = "elements", "escalated", "open", "undefined", "excused"
    total, escalated, open_, undefined, excused = (sum(getattr(s, name) for s in shares) for name in names)
    console.results().print(
        f"\n{escalated} of {total:,} elements escalated ({escalated / total:.4%}), "
        f"{open_:,} may be any number ({open_ / total:.2%}), {undefined:,} are integers of NaN, "
        f"{excused:,} may be some numbers, or NaN or infinite, "
        f"seed {options.seed}"
    )
    facts = {"timings": [asdict(t) for t in timings], "escalations": [asdict(s) for s in shares]}
    write_record(options.json, {"seed": options.seed, **facts})
    return Exit.OK


def tiers(op: Op, dtype: str, lengths: Sequence[int], seed: int) -> Iterator[TierTimes]:
    """Time both tiers on a normal row of each length, judged in full by each."""
    contract = usual(op, dtype)
    for n in lengths or LENGTHS:
        problem = plain(op, dtype, 1, n, seed)
        of = FormulaProblem(problem)
        outputs, arranged = (
            returned(problem, kernel_of(of, contract, seed)),
            stored(problem, simulated(of, contract, seed)),
        )
        truth = Truth(problem)
        fast = min(_seconds(partial(afresh, problem, contract, outputs)) for _ in range(_REPEATS))
        again = min(_seconds(partial(truth.check, contract, outputs)) for _ in range(_REPEATS))
        precise = _seconds(partial(precisely, Truth(problem), contract, arranged))
        yield TierTimes(op.name, dtype, n, fast, again, precise)


def stored(problem: Problem, outputs: Returned) -> dict[str, NDArray[Any]]:
    """Outputs in their storage dtypes."""
    with np.errstate(over="ignore"):
        return {name: values.astype(stored_as(problem.outputs[name])) for name, values in outputs.items()}


def afresh(problem: Problem, contract: Contract, outputs: Mapping[str, NDArray[Any]]) -> bool:
    """Judge outputs in the fast tier, with nothing computed beforehand."""
    return all(check.result == "pass" for check in Truth(problem).check(contract, outputs))


def precisely(truth: Truth, contract: Contract, outputs: dict[str, NDArray[Any]]) -> bool:
    """Judge every element of outputs (one row) in the precise tier."""
    verdicts = []
    for name, values in outputs.items():
        for at in np.ndindex(values.shape):
            bounds = truth.bounds(contract, name, at, truth.problem.structured)
            verdicts.append(bounds is not None and conforms(bounds, float(values[at])))
    return all(verdicts)


def escalations(op: Op, dtype: str, seed: int) -> Iterator[Escalation]:
    """For each recipe of the first input: outputs of a simulated correct kernel, judged."""
    contract = usual(op, dtype)
    for recipe in menus_of(op)[op.main].names:
        counts = np.zeros(5, int)
        for n in _LENGTHS:
            problem = FormulaProblem(plain(op, dtype, _ROWS, n, seed, recipe))
            got = simulated(problem, contract, seed)
            with np.errstate(all="ignore"):
                for name, each in problem.enclose(contract, problem.problem.structured).items():
                    comparison = compare(each, got[name])
                    assert not comparison.failing.any(), f"{op.name}, {recipe}: the simulated kernel is correct"
                    kind = DTYPES[problem.problem.outputs[name]]
                    anything = each.anything(kind)
                    undefined = anything & np.isnan(head(each.centre)) & isinstance(kind, Integer)
                    masks = comparison.unsure, anything & ~undefined, undefined, each.excused(kind)
                    counts += [got[name].size, *(int(mask.sum()) for mask in masks)]
        yield Escalation(op.name, dtype, recipe, *map(int, counts))


def _by_op(shares: Sequence[Escalation]) -> PlainTable:
    """With the recipes that have most of what is escalated, and of what may be any number."""
    rows = list[tuple[str, ...]]()
    for op, dtype in dict.fromkeys((each.op, each.dtype) for each in shares):
        of_op = [each for each in shares if (each.op, each.dtype) == (op, dtype)]
        elements, open_ = sum(each.elements for each in of_op), sum(each.open for each in of_op)
        escalated, most = sum(each.escalated for each in of_op), max(of_op, key=lambda each: each.escalated)
        widest = max(of_op, key=lambda each: each.open)
        cells = str(escalated), f"{most.recipe}: {most.escalated}" if escalated else "-", f"{open_ / elements:.2%}"
        others = (sum(getattr(each, name) for each in of_op) / elements for name in ("undefined", "excused"))
        most_open = f"{widest.recipe}: {widest.open}" if open_ else "-"
        rows.append((op, dtype, f"{elements:,}", *cells, most_open, *(f"{share:.2%}" for share in others)))
    columns = (
        "op", "dtype", "elements", "escalated", "most of them", "any number", "most of them", "integers of NaN",
        "or no number",
    )  # fmt: skip
    return PlainTable(columns, rows)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
