"""What `kernelfuzz bench oracle` does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fuzz.base.errors import UsageError
from fuzz.base.stream import Stream
from fuzz.cli.exits import Exit
from fuzz.generate.menus import recipes
from fuzz.generate.recipes import RowSpec
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import environment
from oracles.bench import bench
from oracles.numerics import Numerics
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulation import rms_norm
from oracles.summation import Lanes
from oracles.truth import Truth

_ROWS, _LENGTHS = 4, (7, 70, 1041, 4097)
_EPS = 2.0**-17


@dataclass(frozen=True)
class Escalation:
    """How often the fast tier had to ask the precise one on rows of one recipe."""

    recipe: str
    elements: int
    escalated: int


def bench_oracle(dtype: str, seed: int, path: Path | None) -> Exit:
    """Print both tables; write the numbers to `path` if it is given."""
    if dtype not in STORAGE or STORAGE[dtype].itemsize == 1:
        raise UsageError(f"--dtype {dtype}: unknown dtype; known: f64, f32, f16, bf16")
    out, err = console.results(), console.progress()
    with err.status("Measuring both tiers ..."):
        timings = list(bench(dtype=dtype, seed=seed))
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
    if path is not None:
        record = {
            "environment": environment(),
            "dtype": dtype,
            "seed": seed,
            "timings": [asdict(t) for t in timings],
            "escalations": [asdict(s) for s in shares],
        }
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return Exit.OK


def escalations(dtype: str, seed: int) -> Iterator[Escalation]:
    """For each recipe: outputs of a simulated correct kernel, judged."""
    numerics = Numerics(summation=Lanes(16, 4, "scalar"), accumulate="f64" if dtype == "f64" else "f32")
    for recipe in recipes().values():
        elements = escalated = 0
        for n in _LENGTHS:
            x = recipe.draw(RowSpec(_ROWS, n, dtype, _EPS), Stream(seed).child(f"{recipe.name} {n}"))
            with np.errstate(all="ignore"):
                y, _ = rms_norm(x, numerics, _EPS, dtype)
            problem = Problem("rms_norm", {"eps": _EPS}, {"x": x}, {"y": dtype}, recipe.structured)
            (check,) = Truth(problem).check(numerics, {"y": y})
            assert check.result == "pass", f"{recipe.name}: the simulated kernel is correct"
            elements, escalated = elements + x.size, escalated + check.escalated
        yield Escalation(recipe.name, elements, escalated)
