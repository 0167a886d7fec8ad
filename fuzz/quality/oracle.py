"""How fast the oracle is: the fast tier against the precise one, and how seldom it has to ask it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fuzz.base.errors import UsageError
from fuzz.base.stream import Stream
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.generate.menus import recipes
from fuzz.generate.recipes import RowSpec
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.formula.calibration import returned
from oracles.formula.contract import Contract
from oracles.precise import conforms
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import Lanes
from oracles.truth import Truth

_ROWS, _LENGTHS = 4, (7, 70, 1041, 4097)
"""The number and the lengths of the rows whose escalations are counted."""
_EPS = 2.0**-17
LENGTHS = (64, 1024, 4096, 32768)


@dataclass(frozen=True)
class TierTimes:
    """Seconds to judge every element of one row of `n`."""

    n: int
    dtype: str
    fast: float
    """The time for a contract that is seen for the first time, inputs included."""
    again: float
    """The time for another kernel with the same contract."""
    precise: float
    escalated: float
    """The share of elements that the fast tier left open."""

    @property
    def ratio(self) -> float:
        """How many times faster the fast tier is."""
        return self.precise / self.fast


@dataclass(frozen=True)
class Escalation:
    """How often the fast tier had to ask the precise one on rows of one recipe."""

    recipe: str
    elements: int
    escalated: int


@dataclass(frozen=True)
class OracleOptions:
    """The options of `python3 -m fuzz.quality oracle`."""

    dtype: Annotated[str, typer.Option("--dtype", help="f64, f32, f16 or bf16.")] = "f32"
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    json: options.Json = None


def oracle(options: OracleOptions) -> Exit:
    """Measure the fast tier of the oracle against the precise one, and count what it leaves open."""
    dtype, seed = options.dtype, options.seed
    if dtype not in STORAGE or STORAGE[dtype].itemsize == 1:
        raise UsageError(f"--dtype {dtype}: unknown dtype; known: f64, f32, f16, bf16")
    out, err = console.results(), console.progress()
    with err.status("Measuring both tiers ..."):
        timings = list(tiers(dtype=dtype, seed=seed))
    rows: list[tuple[str, ...]] = [
        (str(t.n), f"{t.fast * 1e6:.0f}", f"{t.again * 1e6:.0f}", f"{t.precise * 1e6:,.0f}", f"{t.ratio:,.0f}x")
        for t in timings
    ]
    columns = ("n", "fast us", "same contract again us", "precise us", "precise/fast")
    print_table(PlainTable(columns, rows), markdown=False)
    out.print()
    with err.status("Judging correct outputs of every recipe ..."):
        shares = list(escalations(dtype, seed))
    rows = [(share.recipe, f"{share.elements:,}", str(share.escalated)) for share in shares]
    print_table(PlainTable(("recipe", "elements", "escalated"), rows), markdown=False)
    total, escalated = sum(s.elements for s in shares), sum(s.escalated for s in shares)
    out.print(f"\n{escalated} of {total:,} elements escalated ({escalated / total:.4%}), {dtype}, seed {seed}")
    facts = {"timings": [asdict(t) for t in timings], "escalations": [asdict(s) for s in shares]}
    write_record(options.json, {"dtype": dtype, "seed": seed, **facts})
    return Exit.OK


def escalations(dtype: str, seed: int) -> Iterator[Escalation]:
    """For each recipe: outputs of a simulated correct kernel, judged."""
    contract = Contract("f64" if dtype == "f64" else "f32", sums={"n": Lanes(16, 4, "scalar")})
    for recipe in recipes().values():
        elements = escalated = 0
        for n in _LENGTHS:
            x = recipe.draw(RowSpec(_ROWS, n, dtype, _EPS), Stream(seed).child(f"{recipe.name} {n}"))
            problem = Problem("rms_norm", {"eps": _EPS}, {"x": x}, {"y": dtype}, recipe.structured)
            y = _right(problem, contract)
            (check,) = Truth(problem).check(contract, {"y": y})
            assert check.result == "pass", f"{recipe.name}: the simulated kernel is correct"
            elements, escalated = elements + x.size, escalated + check.escalated
        yield Escalation(recipe.name, elements, escalated)


def tiers(lengths: Sequence[int] = LENGTHS, dtype: str = "f32", seed: int = 1) -> Iterator[TierTimes]:
    """Time both tiers on a normal row of each length, judged in full by each."""
    contract = Contract(sums={"n": Lanes(16, 4, "scalar")})
    rng = np.random.default_rng(seed)
    for n in lengths:
        x = rng.standard_normal((1, n)).astype(np.float32)
        problem = Problem("rms_norm", {"eps": _EPS}, {"x": x}, {"y": dtype})
        y = _right(problem, contract)
        truth = Truth(problem)
        fast = min(_seconds(partial(afresh, problem, contract, y)) for _ in range(7))
        again = min(_seconds(partial(truth.check, contract, {"y": y})) for _ in range(7))
        escalated = sum(check.escalated for check in truth.check(contract, {"y": y})) / n
        fresh = Truth(problem)
        precise = _seconds(partial(precisely, fresh, contract, y))
        yield TierTimes(n, dtype, fast, again, precise, escalated)


def afresh(problem: Problem, contract: Contract, y: NDArray[Any]) -> bool:
    """Judge `y` in the fast tier, with nothing computed beforehand."""
    return Truth(problem).check(contract, {"y": y})[0].result == "pass"


def precisely(truth: Truth, contract: Contract, y: NDArray[Any]) -> bool:
    """Judge every element of `y` (one row) in the precise tier."""
    verdicts = []
    for index in np.ndindex(y.shape):
        bounds = truth.bounds(contract, "y", index, truth.problem.structured)
        verdicts.append(bounds is not None and conforms(bounds, float(y[index])))
    return all(verdicts)


def _right(problem: Problem, contract: Contract) -> NDArray[Any]:
    """The y of a simulated correct kernel."""
    return returned(problem, contract, np.random.default_rng(0), "declared", fused=False)["y"]


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
