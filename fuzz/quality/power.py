"""How small a wrong term the oracle still catches, beside the default tolerances of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Annotated

import typer

from fuzz.base.errors import UsageError
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.quality.mutants import ScaledMutant, mutants
from fuzz.quality.subjects import Returned, chosen, simulated
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from fuzz.uses.tolerance.others import TORCH, Tolerance
from fuzz.uses.tolerance.plain import PLAIN, plain, usual
from oracles.doubledouble import F64, head
from oracles.dtypes import NARROW, SINGLE
from oracles.enclosure import Enclosure, Mask, compare
from oracles.formula.contract import Contract
from oracles.formula.tiers.problem import FormulaProblem
from oracles.lazy import lazy
from oracles.op import Op
from oracles.rounding import round_to

_NEAR_PARAMETER = "near_threshold"
"""The recipe of rows on which a parameter matters that is added to their mean squares."""
Judge = Callable[[Returned], float]
"""The largest share of rows, or of columns, of an output that fail."""
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
    """The smallest size of something wrong at which at least half of the rows fail, as a power of two; None where they
    never do."""

    op: str
    wrong: str
    dtype: str
    n: int
    caught: int | None
    """By the conformance sets of the usual contract."""
    torch: int | None
    """Within the default tolerances of torch."""

    @property
    def cell(self) -> str:
        """Both."""
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
    """For everything that can be wrong with a kernel of the op. Parameters are changed on rows where they matter."""
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
    """Rows of an op, and what is said of outputs on them."""

    problem: FormulaProblem
    contract: Contract
    seed: int

    @lazy
    def enclosures(self) -> Mapping[str, Enclosure]:
        """What outputs may be."""
        return self.problem.enclose(self.contract, self.problem.problem.structured)

    def caught(self, got: Returned) -> float:
        """By the conformance sets."""
        return _share(compare(each, got[name]).failing for name, each in self.enclosures.items())

    def noticed(self, tolerance: Tolerance, got: Returned) -> float:
        """By a tolerance around the exact values, rounded."""
        exact = {name: round_to(head(each.centre), each.form) for name, each in self.enclosures.items()}
        return _share(tolerance.failing(got[name], expected) for name, expected in exact.items())

    def returned(self, mutant: ScaledMutant, exponent: int) -> Returned:
        """The outputs of a kernel that is wrong by this much."""

        def change(values: F64) -> F64:
            return mutant.change(values, 2.0**exponent)

        return simulated(self.problem, self.contract, self.seed, mutant.trace, {mutant.node: change})


def first(exponents: range, returned: Callable[[int], Returned], judge: Judge) -> int | None:
    """The smallest of which at least half fails; of larger ones it does so too."""
    low, high = exponents.start - 1, exponents.stop
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if judge(returned(middle)) >= _HALF else (middle, high)
    return high if high in exponents else None


def _share(failing: Iterable[Mask]) -> float:
    """A row, or a column, fails where any of its elements does."""
    return max(float(each.reshape(len(each), -1).any(axis=1).mean()) for each in failing)


def _table(found: Sequence[Smallest], columns: Sequence[tuple[str, int]]) -> PlainTable:
    lines: dict[tuple[str, str], dict[tuple[str, int], str]] = {}
    for each in found:
        lines.setdefault((each.op, each.wrong), {})[each.dtype, each.n] = each.cell
    rows = [(*line, *(cells.get(column, "") for column in columns)) for line, cells in lines.items()]
    return PlainTable(("op", "wrong", *(f"{dtype}, n = {n}" for dtype, n in columns)), rows)
