"""The matrix unit of this machine's GPU, measured through torch, beside the row of `oracles.matrix_units` for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Annotated, Any

import numpy as np
import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import UsageError
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.budget import sum_budget
from oracles.doubledouble import F64
from oracles.dtypes import FORMATS, point_form
from oracles.matrix_units import UNITS, MatrixUnit
from oracles.rounding import round_to
from oracles.summation import AnyOrder, Blocks, Summation

Multiply = Callable[[F64, F64, str], F64]
"""A product of matrices whose elements are of a dtype, accumulated in f32 as the GPU does."""
_SIZE = 32
"""The number of rows and columns of the matrices that are multiplied."""
_LONG = 4096
"""The length of the sums whose errors are compared with what contracts allow."""
_OTHERS = tuple(Blocks(block, True, extra) for block in (4, 8, 16, 32, 64) for extra in (-11, -10, -9, 0, 1, 2, 3))
_F32 = FORMATS["f32"]
_UNMEASURED = (ImportError, RuntimeError, TypeError, ValueError)
"""The errors of what this torch or this GPU cannot multiply."""


@dataclass(frozen=True)
class MatrixUnitsOptions:
    """The options of `python3 -m fuzz.quality matrix-units`."""

    accelerator: Annotated[str, typer.Option("--accelerator", help="The row, such as H200. By default the GPU's.")] = ""
    rows: Annotated[bool, typer.Option("--rows", help="Only list all rows, with their sources.")] = False
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the factors.")] = 1
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class Attested:
    """What a matrix unit returned for factors of one dtype, beside what its row says."""

    dtype: str
    row: str
    """The order that the row says."""
    outputs: int
    equal: int
    """The number of outputs that are, bit by bit, as the row says."""
    told: int
    """The number of outputs that the nearest of other blocks and bits would have different from the row."""
    explains: tuple[str, ...]
    """All orders, among those that were tried, by which every output is as it is."""
    allowed: float
    """The largest error of long sums, as a share of what the row's order allows."""
    as_f32: float
    """The same, of what a sum in any order in f32 is allowed, with each addition rounded."""

    @property
    def agrees(self) -> bool:
        """Whether the unit is as its row says, and as no other order that was tried."""
        return self.explains == (self.row,)


def matrix_units(options: MatrixUnitsOptions) -> Exit:
    """Measure the matrix unit of the GPU by products that tell its blocks, bits and roundings; exit code 1 for a row
    that is not attested.

    A row of `oracles.matrix_units` is attested if all outputs are equal to it and no other order explains them.
    """
    begin, out = time.perf_counter(), console.results()
    if options.rows:
        print_table(_known(), markdown=options.markdown)
        return Exit.OK
    if options.accelerator and not rows_of(options.accelerator):
        raise UsageError(f"--accelerator {options.accelerator}: no row with a model is about it; see --rows")
    import torch

    if not torch.cuda.is_available():
        out.print("no GPU: torch finds no CUDA device here")
        return Exit.NOTHING_RAN
    device = str(torch.cuda.get_device_name())
    rows = rows_of(options.accelerator or device)
    out.print(f"{device}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    if not rows:
        out.print("no row of oracles.matrix_units is about it; --accelerator names one that may be like it")
        return Exit.NOTHING_RAN
    found = list[Attested]()
    for row, dtype in rows:
        try:
            # For few terms of TF32 torch takes instructions that are no matrix unit's.
            multiply = import_module("fuzz.quality.tf32").product if dtype == "tf32" else _by_torch
            found.append(attested(row, dtype, multiply, np.random.default_rng(options.seed)))
        except _UNMEASURED as error:
            out.print(f"{dtype}: not measured, {str(error).splitlines()[0]}")
    print_table(_table(found), markdown=options.markdown)
    out.print(f"\nseed {options.seed}, {time.perf_counter() - begin:.0f} s")
    write_record(options.json, {"device": device, "seed": options.seed, "attested": [asdict(each) for each in found]})
    if not found:
        return Exit.NOTHING_RAN
    return Exit.OK if all(each.agrees for each in found) else Exit.FINDINGS


def rows_of(device: str) -> list[tuple[MatrixUnit, str]]:
    """Return the rows with a model for a device, by dtype: the accelerator's name is a word of the device's."""
    words = device.replace("-", " ").split()
    return [
        (each, dtype)
        for each in UNITS
        if each.adds and any({*name.split()} <= {*words} for name in each.accelerators)
        for dtype in each.dtypes
    ]


def attested(row: MatrixUnit, dtype: str, multiply: Multiply, random: np.random.Generator) -> Attested:
    """Return what products of factors of a dtype say about the unit that made them."""
    outputs = equal = 0
    others = [replace(row, order=order, adds="cut") for order in _OTHERS if order != row.order]
    same, apart = [True] * len(others), [0] * len(others)
    for a, b in factors(row.order.block, dtype, random):
        got, said = multiply(a, b, dtype), row.product(a, b, dtype)
        outputs, equal = outputs + got.size, equal + int((got == said).sum())
        for place, other in enumerate(others):
            values = other.product(a, b, dtype)
            same[place] &= bool((got == values).all())
            apart[place] += int((said != values).sum())
    explains = [row.order] if equal == outputs else []
    explains += [other.order for other, is_same in zip(others, same, strict=True) if is_same]
    shares = [shares_of(row.order, dtype, multiply, random), shares_of(AnyOrder(), dtype, multiply, random)]
    return Attested(dtype, words(row.order), outputs, equal, min(apart), tuple(map(words, explains)), *shares)


def factors(block: int, dtype: str, random: np.random.Generator) -> Iterator[tuple[F64, F64]]:
    """Yield pairs of matrices: of one block and several, of numbers that are alike, that lie far apart, and of one that
    is far larger than all others, at either end."""
    for k in (block, 2 * block, 4 * block):
        for low, high, first in ((-1, 0, 0), (-6, 6, 0), (-6, -2, 6), (-6, -6, 3)):
            a, b = (drawn((_SIZE, k), low, high, dtype, random) for _ in range(2))
            if first:
                at = int(random.choice([0, k - 1]))
                a[:, at], b[:, at] = 2.0**first, 2.0**first
            yield a, b.T.copy()


def drawn(shape: tuple[int, ...], low: int, high: int, dtype: str, random: np.random.Generator) -> F64:
    """Return numbers of a dtype of either sign with exponents from `low` to `high`. Those of 8 bits have the three
    significant bits that both formats have, as torch multiplies no two matrices of e5m2."""
    values = random.uniform(1.0, 2.0, shape)
    values = np.floor(values * 4) / 4 if FORMATS.get(dtype, _F32).itemsize == 1 else values
    values = values * 2.0 ** random.integers(low, high + 1, shape) * random.choice([-1.0, 1.0], shape)
    return round_to(values, point_form(dtype))


def shares_of(order: Summation, dtype: str, multiply: Multiply, random: np.random.Generator) -> float:
    """Return the largest error of long sums as a share of what an order of sums in f32 allows."""
    allowed, shares = sum_budget(_F32, order.chain(_LONG), True)[1], list[float]()
    for low, first in ((-1, 0), (-6, 6)):
        a, b = (np.abs(drawn((_SIZE, _LONG), low, low, dtype, random)) for _ in range(2))
        if first:
            a[:, 0], b[:, 0] = 2.0**first, 2.0**first
        exact = a @ b.T
        shares.append(float(np.max(np.abs(multiply(a, b.T.copy(), dtype) - exact) / (allowed * exact))))
    return max(shares)


def words(order: Blocks) -> str:
    """Return an order of a matrix unit as a contract writes it."""
    extra = f", extra={order.extra}" if order.extra else ""
    return f"Blocks({order.block}{', truncates=True' if order.truncates else ''}{extra})"


def _table(found: Sequence[Attested]) -> PlainTable:
    columns = (
        "dtype", "row", "outputs", "equal", "would differ", "explained by",
        f"error at k = {_LONG}", "as f32",
    )  # fmt: skip
    rows = [
        (
            each.dtype, each.row, f"{each.outputs:,}", f"{each.equal:,}", f"{each.told:,}",
            "; ".join(each.explains) or "none that was tried", f"{each.allowed:.2f} of what is allowed",
            f"{each.as_f32:.2f}",
        )
        for each in found
    ]  # fmt: skip
    return PlainTable(columns, rows)


def _known() -> PlainTable:
    columns = "accelerators", "factors", "order of sums", "adds", "source"
    rows = [
        (", ".join(each.accelerators), ", ".join(each.dtypes), words(each.order), each.adds or "no model", each.source)
        for each in UNITS
    ]
    return PlainTable(columns, rows)


def _by_torch(a: F64, b: F64, dtype: str) -> F64:
    import torch

    names = {"f16": "float16", "bf16": "bfloat16", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2"}
    given: Any = getattr(torch, names[dtype])
    first, second = (torch.from_numpy(each).to("cuda") for each in (a, b))
    if dtype in ("f16", "bf16"):
        found = torch.mm(first.to(given), second.to(given), out_dtype=torch.float32)
    else:
        one, left, right = torch.ones((), device="cuda"), first.to(torch.float8_e4m3fn), second.to(given)
        right = right.t().contiguous().t()
        found = torch._scaled_mm(left, right, one, one, None, None, torch.float32, True)  # the last: without promotion
    return np.asarray(found.double().cpu().numpy())
