"""The tiers of the oracle: how seldom the fast one has to ask the precise one, and about what it says nothing; and both
of them on random elements of any op, where the fast one decides nothing that the precise one denies."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track

from fuzz.campaign.parallel import spread
from fuzz.campaign.tolerance import plain, usual
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.core.base.errors import InternalError, UsageError
from fuzz.core.base.stream import Dice, Stream, child_key
from fuzz.core.generate.menus import menus_of
from fuzz.quality.subjects import chosen, drawn, simulated
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from oracles.algorithm import FORMULA
from oracles.doubledouble import head
from oracles.dtypes import COMPUTED, DOUBLE, DTYPES, Integer
from oracles.enclosure import FORBIDDEN, REQUIRED, Enclosure, Worst, compare
from oracles.escalation import narrowed
from oracles.formula.contract import INPUT, Contract
from oracles.op import Op
from oracles.ops import OPS
from oracles.precise import Bounds, conforms, stable
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


Index = tuple[int, ...]
_COMPARED_LENGTHS = (1, 2, 3, 5, 8, 8, 13, 13, 21, 21, 34, 89)
"""Mostly short lengths: the precise tier reads a row for each of its elements, and a short one has as many edges."""
_COMPARED_ROWS = (1, 2, 3)
_DENORMALS: Sequence[Any] = ("preserve", "preserve", "flush", "flush operands", "flush results")
_SHOWN = 20
BATCH = 2000
"""The number of elements in one piece of work of a process."""


@dataclass(frozen=True)
class CentresOptions:
    """The options of `python3 -m fuzz.quality centres`."""

    op: Annotated[str, typer.Option("--op", help="Only these ops (a glob).")] = "*"
    elements: Annotated[int, typer.Option("--elements", min=1, help="Elements of each op.")] = 20_000
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=0, help="Most processes. 0: one per processor.")] = 0
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1
    markdown: options.Markdown = False
    json: options.Json = None


@dataclass(frozen=True)
class Compared:
    """Counts of elements that both tiers looked at."""

    op: str
    elements: int = 0
    escalated: int = 0
    """How many the fast tier left to the precise one."""
    unjudged: int = 0
    """How many the contract says nothing about."""
    gave_up: int = 0
    """For how many the precise tier was not stable."""
    wrong: tuple[str, ...] = ()
    """Where the fast tier contradicts the precise one, in words."""

    def __add__(self, other: Compared) -> Compared:
        elements, escalated = self.elements + other.elements, self.escalated + other.escalated
        unjudged, gave_up = self.unjudged + other.unjudged, self.gave_up + other.gave_up
        return Compared(self.op, elements, escalated, unjudged, gave_up, self.wrong + other.wrong)


_COUNTS = ("elements", "escalated", "unjudged", "gave_up")


def centres(options: CentresOptions) -> Exit:
    """Compare both tiers of the oracle on random elements; exit code 1 where they disagree.

    Problems of every op are drawn with any recipes, dtypes, parameters, operands and algorithms. The conformance set of
    each element from float64, or from double-double, must enclose the one from mpmath.
    """
    ops, begin = chosen(options.op), time.perf_counter()
    pieces = [(op.name, options.seed, number) for op in ops for number in range(-(-options.elements // BATCH))]
    total = {op.name: Compared(op.name) for op in ops}
    answers = spread(_piece, pieces, options.jobs or os.cpu_count() or 1, "fork")
    found = dict(track(answers, "Comparing", len(pieces), console=console.progress(), transient=True))
    for piece in pieces:
        if (each := found.get(piece)) is None:
            raise InternalError(f"{piece[0]}: the process that compared its elements was ended from outside")
        total[each.op] += each
    ended, seconds = [*total.values()], time.perf_counter() - begin
    columns = ("op", "elements", "escalated", "unjudged", "gave up", "disagreements")
    rows = [(each.op, *(f"{getattr(each, name):,}" for name in _COUNTS), str(len(each.wrong))) for each in ended]
    print_table(PlainTable(columns, rows), markdown=options.markdown)
    wrong = [line for each in ended for line in each.wrong]
    out = console.results()
    for line in wrong[:_SHOWN]:
        out.print(line, soft_wrap=True)
    out.print(f"\n{len(wrong)} disagreements, seed {options.seed}, {seconds:.0f} s")
    write_record(options.json, {"seed": options.seed, "seconds": seconds, "ops": [asdict(each) for each in ended]})
    return Exit.FINDINGS if wrong else Exit.OK


def _piece(place: tuple[str, int, int]) -> Compared:
    name, seed, number = place
    return compared(OPS[name], BATCH, child_key(seed, f"centres {name} {number}"))


def compared(op: Op, elements: int, seed: int) -> Compared:
    """Return the counts for at least `elements` elements of an op."""
    found, number = Compared(op.name), 0
    while found.elements < elements:
        dice = Dice(Stream(seed).child(f"problem {number}"))
        dtype = COMPUTED[number % len(COMPUTED)]
        problem = drawn(
            op, dtype, dice.pick(_COMPARED_ROWS), dice.pick(_COMPARED_LENGTHS), child_key(seed, f"values {number}")
        )
        found += _of_problem(FormulaProblem(problem), _contract(op, dtype, dice))
        number += 1
    return found


def _contract(op: Op, dtype: str, dice: Dice) -> Contract:
    """Return a contract with any algorithms, in any arithmetic that determines what a centre is."""
    ways = {local: dice.pick((FORMULA, *known)) for local, known in op.algorithms.items()}
    compute = dtype if dtype == DOUBLE.name else dice.pick(("f32", "f32", INPUT))
    denormals = dice.pick(_DENORMALS)
    return replace(usual(op, dtype), compute=compute, algorithm=ways, denormals=denormals)


def _of_problem(problem: FormulaProblem, contract: Contract) -> Compared:
    """Return the counts for all elements of all outputs."""
    found, structured, elements = Compared(problem.of_op.name), problem.problem.structured, Elements(problem)
    with np.errstate(all="ignore"):
        for output, enclosure in problem.enclose(contract, structured).items():
            for at in np.ndindex(enclosure.below.shape):
                found += _of_element(elements, contract, output, enclosure, at)
    return found


def _of_element(elements: Elements, contract: Contract, output: str, enclosure: Enclosure, at: Index) -> Compared:
    problem = elements.problem
    op, structured = problem.of_op.name, problem.problem.structured
    bounds = stable(partial(elements.bounds, output, at, contract, structured))
    if bounds is None:
        return Compared(op, 1, gave_up=1)
    if _at(enclosure.unjudged, at):
        free = bounds.ends == (-np.inf, np.inf)
        why = "" if free else f"not judged, but {bounds.decision}"
        return Compared(op, 1, unjudged=1, wrong=(f"{op} {output}{list(at)}, {contract}: {why}",) if why else ())
    if _at(enclosure.unsure, at):
        return Compared(op, 1, escalated=1)
    if enclosure.places:
        why = _denied_places(enclosure, at, bounds)
        return Compared(op, 1, wrong=(f"{op} {output}{list(at)}, {contract}: {why}",) if why else ())
    why = _denied(enclosure, at, bounds)
    centre, width = float(head(enclosure.centre)[at]), float(enclosure.below[at])
    if not why and np.isfinite(centre):
        worst = Worst(0, 0.0, False, centre, width)
        why = elements.contradiction(output, at, contract, structured, worst, bounds)
    wrong = (f"{op} {output}{list(at)}, {contract}: {why}",) if why else ()
    whole = isinstance(DTYPES[problem.problem.outputs[output]], Integer)
    return Compared(op, 1, int(_is_open(enclosure, at, whole)), wrong=wrong)


def _denied(enclosure: Enclosure, at: Index, bounds: Bounds) -> str:
    """Return how the precise tier contradicts the fast one about an element; '' if each end is enclosed or open."""
    nan = FORBIDDEN if enclosure.nan is None else int(enclosure.nan[at])
    if nan != (bounds.nan or int(bounds.may_be_nan)):  # an overflow leaves NaN in a format without infinity
        return f"NaN {nan}, but {bounds.decision}"
    beside = _something(enclosure.beside, at)
    if (bounds.beside is None) != (beside is None):
        return f"{'nothing' if beside is None else 'something'} beside it, but {bounds.decision}"
    if bounds.beside is not None and beside is not None:
        why = _denied(beside, at, bounds.beside)
        if why:
            return f"beside it: {why}"
    if bounds.nan == REQUIRED:
        return ""
    low, high = bounds.ends
    inner_low, inner_high, outer_low, outer_high = (each[at] for each in (*enclosure.inner, *enclosure.outer))
    if outer_low <= low <= inner_low and inner_high <= high <= outer_high:
        return ""
    return f"{outer_low!r} to {inner_low!r} and {inner_high!r} to {outer_high!r}, but {bounds.decision}"


def _something(enclosure: Enclosure | None, at: Index) -> Enclosure | None:
    """Return the enclosure if an element of it may be anything at all."""
    if enclosure is None or (
        np.isnan(enclosure.outer[0][at]) and not (enclosure.nan is not None and enclosure.nan[at])
    ):
        return None
    return enclosure


def _denied_places(enclosure: Enclosure, at: Index, bounds: Bounds) -> str:
    """Return the contradiction about an index: the allowed ones at the ends, and what lies between and beside them."""
    if bounds.members is None:
        return f"judged, but {bounds.decision}"
    low, high = min(bounds.members), max(bounds.members)
    for place in sorted({low - 1, *bounds.members[:3], (low + high) // 2, high, high + 1}):
        told = [each.compared(np.full(enclosure.below.shape, float(place))) for each in enclosure.places]
        certain, possible = (any(bool(each[which][at]) for each in told) for which in (0, 1))
        if not (certain <= conforms(bounds, float(place)) <= possible):
            return f"place {place} is right {certain}, may be {possible}, but {bounds.decision}"
    return ""


def _is_open(enclosure: Enclosure, at: Index, whole: bool) -> bool:
    """Whether there are values (of an output of integers, integers) about which the fast tier cannot tell."""
    lows, highs = ([each[side][at] for each in (enclosure.inner, enclosure.outer)] for side in (0, 1))
    pairs = (np.ceil(lows), np.floor(highs)) if whole else (lows, highs)
    return any(bool(a != b) and not np.isnan(a) for a, b in pairs)


def _at(mask: Any, at: Index) -> bool:
    return mask is not None and bool(mask[at])
