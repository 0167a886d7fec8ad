"""Calibration: how far simulated correct kernels really stray, against the budgets that the oracle gives them.

For every summation structure and row length: the largest error of a sum in units of u sum and of sqrt(h) u sum, and the
largest err/budget of rstd. `kernelfuzz calibrate` prints it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.budget import CONFIDENCE, sum_budget
from oracles.dtypes import form
from oracles.numerics import Numerics
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.simulation import rms_norm, total
from oracles.summation import Lanes, Pairwise, Sequential, Summation, Tiles
from oracles.truth import Truth

STRUCTURES: dict[str, Summation] = {
    "sequential": Sequential(),
    "lanes 4x4 scalar": Lanes(4, 4, "scalar"),
    "lanes 8x4 scalar": Lanes(8, 4, "scalar"),
    "lanes 16x4 scalar": Lanes(16, 4, "scalar"),
    "lanes 4x4 predicated": Lanes(4, 4, "predicated"),
    "lanes 12x4 predicated": Lanes(12, 4, "predicated"),
    "lanes 64x4 predicated": Lanes(64, 4, "predicated"),
    "tiles 256": Tiles(256),
    "pairwise 8": Pairwise(8),
}
"""The structures of the built-in kernels, with SVE at its shortest, odd and longest vectors, and of GPU kernels."""
DTYPES = ("f32", "f16", "bf16")
LENGTHS = (1, 7, 64, 65, 127, 512, 1024, 4097, 32768)
RECIPES = ("normal", "uniform", "lognormal", "integers", "constant", "rising", "falling", "powers")
STRUCTURED = {"constant", "rising", "falling", "powers"}


@dataclass(frozen=True)
class Measurement:
    """The worst of many rows of one structure, length and kind of values."""

    dtype: str
    structure: str
    n: int
    structured: bool
    statistical: bool
    """True: the sum had the statistical budget."""
    rows: int
    chain: int
    error: float
    """The largest |sum - exact| / (u exact)."""
    ratio: float
    """The largest err/budget of rstd."""
    alarms: int
    """The number of judged outputs that did not pass; each is a false alarm, because the kernel is correct."""

    @property
    def constant(self) -> float:
        """The error in units of sqrt(h): what lambda must exceed."""
        return self.error / math.sqrt(self.chain)


def values(recipe: str, rows: int, n: int, dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """(rows, n) of one recipe, in storage dtype."""
    x: NDArray[Any]
    if recipe == "uniform":
        x = rng.uniform(0, 1, (rows, n))
    elif recipe == "lognormal":
        x = rng.lognormal(size=(rows, n))
    elif recipe == "integers":
        x = rng.integers(-10, 11, (rows, n)).astype(np.float64)
    elif recipe == "constant":
        x = np.repeat(rng.uniform(0.5, 2, (rows, 1)), n, axis=1)
    elif recipe in ("rising", "falling"):
        x = np.sort(rng.uniform(0, 1, (rows, n)), axis=1)[:, :: 1 if recipe == "rising" else -1]
    elif recipe == "powers":
        x = 2.0 ** rng.integers(-8, 2, (rows, n))
    else:
        x = rng.standard_normal((rows, n))
    return x.astype(STORAGE[dtype])


def measure(dtype: str, structure: str, n: int, recipe: str, rows: int, rng: np.random.Generator) -> Measurement:
    """Judge `rows` simulated runs of a kernel that accumulates in `dtype`."""
    numerics = Numerics(accumulate=dtype, summation=STRUCTURES[structure])
    x = values(recipe, rows, n, dtype, rng)
    y, rstd = rms_norm(x, numerics, 1e-5, dtype)
    eps = float(np.asarray(1e-5).astype(x.dtype))
    structured = recipe in STRUCTURED
    problem = Problem("rms_norm", {"eps": eps}, {"x": x}, {"y": dtype, "rstd": dtype}, structured)
    checks = Truth(problem).check(numerics, {"y": y, "rstd": rstd})
    wide = x.astype(np.float64)
    exact = np.einsum("ij,ij->i", wide, wide)
    got = total(x * x, numerics.summation).astype(np.float64)
    error = np.max(np.abs(got - exact) / np.where(exact > 0, exact, 1.0)) / form(dtype).u
    chain = numerics.summation.chain(n) + 1
    alarms = sum(check.result != "pass" for check in checks)
    statistical = sum_budget(form(dtype), chain, structured)[2]
    return Measurement(
        dtype, structure, n, structured, statistical, rows, chain, float(error), checks[1].worst_ratio, alarms
    )


def calibrate(runs: int, seed: int, dtypes: Sequence[str] = DTYPES) -> Iterator[Measurement]:
    """About `runs` judged rows spread over all structures, lengths and recipes; short rows get more of them."""
    rng = np.random.default_rng(seed)
    plan = [
        (dtype, structure, n, recipe)
        for dtype in dtypes
        for structure in STRUCTURES
        for n in LENGTHS
        # f16 cannot hold longer row lengths, and its sums of more terms overflow.
        if not (dtype == "f16" and n > 4097)
        for recipe in RECIPES
        if not (dtype == "f16" and recipe in ("integers", "lognormal", "powers"))
    ]
    weights = [1 / math.sqrt(n + 64) for _, _, n, _ in plan]
    for (dtype, structure, n, recipe), weight in zip(plan, weights, strict=True):
        rows = max(1, round(runs * weight / sum(weights)))
        batch = max(1, 2**18 // (n + 16))
        for start in range(0, rows, batch):
            yield measure(dtype, structure, n, recipe, min(batch, rows - start), rng)


def worst(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement per dtype, structure, length and kind of values: largest error and ratio, all rows and alarms."""
    groups: dict[tuple[str, str, int, bool, bool], list[Measurement]] = {}
    for each in measurements:
        groups.setdefault((each.dtype, each.structure, each.n, each.structured, each.statistical), []).append(each)
    return [
        Measurement(
            *key,
            rows=sum(each.rows for each in group),
            chain=group[0].chain,
            error=max(each.error for each in group),
            ratio=max(each.ratio for each in group),
            alarms=sum(each.alarms for each in group),
        )
        for key, group in groups.items()
    ]


def plot(table: Sequence[Measurement], path: str) -> None:
    """Against n, for every structure in f32: errors of sums with random and with structured values, and err/budget.

    The two error panels show both budgets of a sequential sum, the longest chain there is. Raises ModuleNotFoundError
    without matplotlib.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, structured, title in ((panels[0], False, "random values"), (panels[1], True, "structured values")):
        axes.set(title=f"{title}: largest |error| of the sum / (u sum)", xlabel="row length n")
        for structure in STRUCTURES:
            rows = _of(table, structure, structured)
            axes.loglog([row.n for row in rows], [max(row.error, 0.1) for row in rows], marker=".", label=structure)
        axes.plot(LENGTHS, [n + 1 for n in LENGTHS], "k--", label="worst case of a sequential sum, h")
        axes.plot(LENGTHS, [CONFIDENCE * math.sqrt(n + 1) for n in LENGTHS], "k-.", label=f"{CONFIDENCE:g} sqrt(h)")
        axes.set_ylim(0.1, 1e5)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    panels[2].set(title="largest err/budget of rstd (dotted: structured)", xlabel="row length n")
    for number, structure in enumerate(STRUCTURES):
        for structured, style in ((False, "-"), (True, ":")):
            rows = _of(table, structure, structured)
            panels[2].semilogx(
                [row.n for row in rows], [row.ratio for row in rows], style, marker=".", color=f"C{number}"
            )
    panels[2].axhline(1, color="k", linestyle="--")
    panels[2].set_ylim(0, 1.1)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "kernelfuzz"}):
        figure.savefig(path)


def _of(table: Sequence[Measurement], structure: str, structured: bool) -> list[Measurement]:
    return [row for row in table if (row.dtype, row.structure, row.structured) == ("f32", structure, structured)]
