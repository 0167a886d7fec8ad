"""How seldom the fast tier of the oracle has to ask the precise one, and about what the oracle says nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import numpy as np
import typer

from fuzz.campaign.tolerance import plain, usual
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.core.base.errors import UsageError
from fuzz.core.generate.menus import menus_of
from fuzz.quality.subjects import chosen, simulated
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.doubledouble import head
from oracles.dtypes import COMPUTED, DTYPES, Integer
from oracles.enclosure import compare
from oracles.escalation import narrowed
from oracles.op import Op
from oracles.tiers.elements import Elements
from oracles.tiers.problem import FormulaProblem

_ROWS, _LENGTHS = 4, (7, 70, 1041, 4097)
"""The number and the lengths of the rows whose escalations are counted."""


@dataclass(frozen=True)
class Escalation:
    """How often the fast tier had to ask the precise one on rows of one recipe of the first input."""

    op: str
    dtype: str
    recipe: str
    elements: int
    escalated: int
    open: int
    """The number of elements for which any number is right."""
    undefined: int
    """The number of integers converted from NaN: C leaves that undefined, so any integer is right."""
    excused: int
    """The number of other elements for which some numbers are right, and NaN or an infinity too."""


@dataclass(frozen=True)
class OracleOptions:
    """The options of `python3 -m fuzz.quality oracle`."""

    op: Annotated[str, typer.Option("--op", help="Only these ops (a glob).")] = "*"
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help=f"{', '.join(COMPUTED)}. Repeatable.")] = ()
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None


def oracle(options: OracleOptions) -> Exit:
    """Count what the fast tier of the oracle leaves to the precise one, and what is open, of correct outputs."""
    dtypes = options.dtype or ("f32",)
    for dtype in dtypes:
        if dtype not in COMPUTED:
            raise UsageError(f"--dtype {dtype}: unknown dtype; known: {', '.join(COMPUTED)}")
    loaded(options.pack)
    ops, err = chosen(options.op), console.progress()
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
    write_record(options.json, {"seed": options.seed, "escalations": [asdict(s) for s in shares]})
    return Exit.OK


def escalations(op: Op, dtype: str, seed: int) -> Iterator[Escalation]:
    """Yield the counts for each recipe of the first input, on judged outputs of a simulated correct kernel."""
    contract = usual(op, dtype)
    for recipe in menus_of(op)[op.main].names:
        counts = np.zeros(5, int)
        for n in _LENGTHS:
            problem = FormulaProblem(plain(op, dtype, _ROWS, n, seed, recipe))
            got, elements = simulated(problem, contract, seed), Elements(problem)
            with np.errstate(all="ignore"):
                for name, each in problem.enclose(contract, problem.problem.structured).items():
                    comparison = compare(each, got[name])
                    if not each.places:
                        own, structured = got[name], problem.problem.structured
                        decided = partial(elements.decided, name, got=own, contract=contract, structured=structured)
                        comparison = narrowed(comparison, own, decided, time.process_time())
                    assert not comparison.failing.any(), f"{op.name}, {recipe}: the simulated kernel is correct"
                    kind = DTYPES[problem.problem.outputs[name]]
                    anything = each.anything(kind)
                    undefined = anything & np.isnan(head(each.centre)) & isinstance(kind, Integer)
                    masks = comparison.unsure, anything & ~undefined, undefined, each.excused(kind)
                    counts += [got[name].size, *(int(mask.sum()) for mask in masks)]
        yield Escalation(op.name, dtype, recipe, *map(int, counts))


def _by_op(shares: Sequence[Escalation]) -> PlainTable:
    """Return the table with a line for each op, and the recipes with most escalated and most open elements."""
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
