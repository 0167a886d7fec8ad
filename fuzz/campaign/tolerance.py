"""The distance that correct kernels may have from the exact, rounded result, measured on the oracle's conformance sets
of ordinary rows; what a tolerance lets through and refuses there; and a table of this."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType

import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw, Part
from fuzz.core.base.dtypes import numbers
from fuzz.core.base.outcome import Status
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import Pool, outcomes_on
from fuzz.core.generate.dims import LARGE_WORK
from fuzz.core.generate.menus import LIKE_FIRST, menu_of, menus_of
from fuzz.core.generate.realise import realise
from fuzz.core.judge.values import problem_of
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import hangs
from fuzz.report.console import PlainTable
from oracles.doubledouble import F64, head
from oracles.dtypes import COMPUTED, DOUBLE, SINGLE
from oracles.enclosure import Enclosure, Mask
from oracles.formula.contract import Contract
from oracles.formula.made import grown
from oracles.neighbours import neighbours
from oracles.op import Extents, Op
from oracles.operand import OUTER, Operand
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import half_gap, round_to
from oracles.summation import AnyOrder, Lanes, Summation
from oracles.truth import Truth


@dataclass(frozen=True)
class Tolerance:
    """The tolerance `absolute + relative |expected|` for the error of an element."""

    whose: str
    absolute: float
    relative: float

    def allowed(self, expected: F64) -> F64:
        """Return the allowed error of each element."""
        found: F64 = self.absolute + self.relative * np.abs(expected)
        return found

    def failing(self, got: F64, expected: F64) -> Mask:
        """Return a mask of the elements whose error is larger than allowed."""
        with np.errstate(all="ignore"):
            near = np.abs(got - expected) <= self.allowed(expected)
        right: Mask = near | (got == expected) | (np.isnan(got) & np.isnan(expected))
        return ~right


TORCH: Mapping[str, Tolerance] = {
    "f64": Tolerance("torch", 1e-7, 1e-7),
    "f32": Tolerance("torch", 1e-5, 1.3e-6),
    "f16": Tolerance("torch", 1e-5, 1e-3),
    "bf16": Tolerance("torch", 1e-5, 1.6e-2),
}
"""The defaults of torch.testing.assert_close."""
NUMPY = Tolerance("numpy", 1e-8, 1e-5)
"""The defaults of numpy.allclose, for all dtypes."""


ROWS, SEED = 32, 1
DTYPES = COMPUTED
OURS = "correct kernels"


@dataclass(frozen=True)
class Ruler:
    """The effect of one tolerance on an output."""

    whose: str
    absolute: float
    relative: float
    lets_through: float
    """The median, over elements, of the allowed error as a share of the value."""
    refuses: int
    """The number of elements where the tolerance refuses some value that a correct kernel may return."""


@dataclass(frozen=True)
class Needs:
    """The relative tolerances that the elements of one output need, as shares of the exact value rounded to the
    dtype."""

    output: str
    dtype: str
    elements: int
    typical: float
    """The relative tolerance that half of the elements need; `worst` is the one that all need."""
    worst: float
    floor: float
    """The median, over elements, of the smallest error that the oracle notices."""
    rulers: tuple[Ruler, ...]
    """The effects of tolerances: first the tightest pair that refuses no correct kernel, then those of libraries."""


_IN_ANY_ORDER = AnyOrder()


def needs(
    op: Op, dtype: str, n: int, rows: int = ROWS, seed: int = SEED, order: Summation = _IN_ANY_ORDER,
    extents: Extents = MappingProxyType({}),
) -> Iterator[Needs]:  # fmt: skip
    """Yield the needs of each output of numbers, on normal rows of n elements, with `extents` for other dimensions. The
    kernels calculate in float32, or in float64 for float64 inputs, and add in any order unless one is given."""
    truth = Truth(plain(op, dtype, rows, n, seed, extents=extents), confirms=False)
    for name, enclosure in truth.enclosures(usual(op, dtype, order), structured=False).items():
        judged = None if enclosure.places else _judged(enclosure)
        if judged is not None:
            yield _of_output(name, truth.problem.outputs[name], enclosure, judged)


@dataclass(frozen=True, eq=False)
class _Judged:
    """The elements of an output whose expected values are finite and not 0."""

    expected: F64
    """The exact value, rounded."""
    stray: F64
    """The largest error of a correct kernel."""
    needed: F64
    """`stray`, or the distance to the next number of the dtype if that is larger and the kernel rounds on its way: with
    other inputs the exact value may lie in the middle between two numbers."""


def _judged(enclosure: Enclosure) -> _Judged | None:
    with np.errstate(all="ignore"):
        expected = round_to(head(enclosure.centre), enclosure.form)
        low, high = enclosure.outer
        stray = np.maximum(high - expected, expected - low)
        ulp = 2 * half_gap(expected, enclosure.form, expected > 0)
        needed = np.where(enclosure.below + enclosure.above > 0, np.maximum(stray, ulp), stray)
    there = np.isfinite(needed) & (expected != 0)
    if enclosure.unjudged is not None:
        there &= ~enclosure.unjudged
    return _Judged(expected[there], stray[there], needed[there]) if there.any() else None


def _of_output(name: str, dtype: str, enclosure: Enclosure, judged: _Judged) -> Needs:
    share = judged.needed / np.abs(judged.expected)
    others = (TORCH.get(dtype), NUMPY)
    tolerances = (tightest(judged.expected, judged.needed), *(each for each in others if each is not None))
    return Needs(
        name, dtype, share.size, float(np.median(share)), float(share.max()), float(np.median(enclosure.shares())),
        tuple(_ruler(each, judged) for each in tolerances),
    )  # fmt: skip


def tightest(expected: F64, needed: F64) -> Tolerance:
    """Return a tolerance that refuses no correct kernel: the relative part is what the larger half of the values needs,
    the absolute part what the smaller half needs beyond it. Both are rounded up to two digits."""
    size = np.abs(expected)
    relative = _up(float((needed / size)[size >= np.median(size)].max()))
    return Tolerance(OURS, _up(float(np.maximum(needed - relative * size, 0.0).max())), relative)


def _up(value: float) -> float:
    """Return the smallest number with two digits that is not below `value`."""
    if value == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step) * step:.1e}")


def _ruler(tolerance: Tolerance, judged: _Judged) -> Ruler:
    allowed = tolerance.allowed(judged.expected)
    through = float(np.median(allowed / np.abs(judged.expected)))
    refuses = int(np.count_nonzero(judged.stray > allowed))
    return Ruler(tolerance.whose, tolerance.absolute, tolerance.relative, through, refuses)


VERSION = 1
_NAMES = {"torch": "torch.testing.assert_close", "numpy": "numpy.allclose", OURS: "what correct kernels need"}
_USELESS = 0.5
"""The share of a value from which on a tolerance is useless: it lets through errors of half the value."""


def record_text(op: str, dtype: str, n: int, rows: int, extents: Mapping[str, int], found: Sequence[Needs]) -> str:
    """Return the JSON text that `--json` prints."""
    facts = {"op": op, "dtype": dtype, "n": n, "rows": rows, "extents": dict(extents)}
    return json.dumps({"schema": VERSION, **facts, "outputs": [asdict(each) for each in found]}, indent=1)


def tolerance_table(found: Needs) -> PlainTable:
    """Return a table with a line for each tolerance."""
    columns = (f"{found.output}, {found.dtype}", "atol", "rtol", "lets through", "may refuse a correct kernel")
    return PlainTable(columns, [_row(each, found) for each in found.rulers])


def _row(each: Ruler, found: Needs) -> tuple[str, ...]:
    refuses = f"at {each.refuses:,} of {counted(found.elements, 'element')}" if each.refuses else "nowhere"
    return _NAMES[each.whose], f"{each.absolute:.2g}", f"{each.relative:.2g}", _share(each.lets_through), refuses


def tolerance_lines(found: Needs) -> Iterator[str]:
    """Yield lines about the meaning of the table, and about what to type next."""
    yield f"relative to the exact value, rounded: typical {_share(found.typical)}, worst {_share(found.worst)}"
    yield f"each element by its own limit, as kernelfuzz judges: an error of {_share(found.floor)} is seen"
    ours = next(each for each in found.rulers if each.whose == OURS)
    if ours.lets_through >= _USELESS:
        yield "no pair of atol and rtol is of use here: values that cancel are judged with ones that do not"
    else:
        yield f"next: assert_close(mine, right, atol={ours.absolute:g}, rtol={ours.relative:g}), for values like these"


def _share(value: float) -> str:
    return "0" if value == 0 else f"{100 * value:.2g}%" if value >= 1e-4 else f"{value:.2g}"


_USUAL = 64, 1024
"""The rows and their length in a usual test. It is not run where it needs 16 times `LARGE_WORK`, as windows can."""


def usual_test(pool: Pool, targets: Iterable[Target], book: FindingBook) -> str:
    """Return a line on whether a usual test finds the first failing kernel of a book wrong: a library's comparison with
    the exact values, rounded, on normal values of one shape; '' if the kernel does not take these, or hangs."""
    bucket = next(iter(book.buckets.values()))
    target = next((each for each in targets if each.id == bucket.target), None)
    if target is None or book.errors or hangs(bucket):
        return ""
    op = OPS[target.kernel.op]
    dtype = bucket.case.inputs[op.main].dtype
    first = next((dim for dim in op.inputs[0].axes if dim != op.row), op.row)
    if op.work(dict(zip((first, op.row), _USUAL, strict=True))) > 16 * LARGE_WORK:
        return ""
    case = plain_case(op, dtype, *_USUAL, SEED)
    [outcome] = outcomes_on(target.id, pool, [case])
    if outcome is None or outcome.status is not Status.RAN or {*case.outputs} - {*outcome.outputs}:
        return ""
    rule, fails = NUMPY if target.name.kind == "numpy" else TORCH.get(dtype, NUMPY), False
    for name, enclosure in Truth(problem_of(case), confirms=False).enclosures(target.contract, False).items():
        output = case.outputs[name]
        expected = round_to(head(enclosure.centre), enclosure.form)
        got = numbers(outcome.outputs[name], output.dtype, output.layout.shape).astype(np.float64)
        if got.size == expected.size:  # not for outputs of places
            fails |= bool(rule.failing(got.reshape(expected.shape), expected).any())
    shape = "x".join(map(str, case.inputs[OPS[case.op].main].layout.shape))
    said = "fails, too," if fails else "passes"
    return f"  {_NAMES[rule.whose].rpartition('.')[2]:<13} {said} on {shape} normal values in {dtype}"


PLAIN = "normal"
"""The recipe that is given to each input which may have it."""
LANES = Lanes(16, 4, "predicated")
_FEW = 4
"""The extent of dimensions other than the row and the first one. Chosen."""


def usual(op: Op, dtype: str, order: Summation = LANES) -> Contract:
    """Return the contract of a plain kernel, which calculates in float32, or in float64 for float64: sums are added in
    vectors, with short chains, unless another order is given."""
    dims = {key: None for each in neighbours(op, Contract()) for key in each.contract.sums}
    compute = DOUBLE.name if dtype == DOUBLE.name else SINGLE.name
    return Contract(compute, sums=dict.fromkeys((op.row, OUTER, *dims), order))


def plain(
    op: Op, dtype: str, rows: int, n: int, seed: int, recipe: str = PLAIN, extents: Extents = MappingProxyType({})
) -> Problem:
    """Return the problem of `plain_case`."""
    return problem_of(plain_case(op, dtype, rows, n, seed, recipe, extents))


def plain_case(
    op: Op, dtype: str, rows: int, n: int, seed: int, recipe: str = PLAIN, extents: Extents = MappingProxyType({})
) -> Case:
    """Return a case with normal rows, or rows of another recipe in the first input. It has all inputs, and the outputs
    that every suite looks at. No parameter has its neutral value."""
    dtypes = dtypes_of(op, dtype)
    parts = [Part(each.name, dtypes[each.name], recipe=_recipe(op, each, recipe)) for each in op.inputs]
    parts += [Part(each.name, dtypes[each.name]) for each in op.outputs if _is_looked_at(op, each)]
    params = {each.name: next(value for value in each.values if value != each.neutral) for each in op.parameters}
    return realise(ordinary_draw(op, n, rows, params, seed, parts, extents))


def ordinary_draw(
    op: Op, n: int, rows: int, params: Mapping[str, float], seed: int, parts: Sequence[Part],
    extents: Extents = MappingProxyType({}),
) -> Draw:  # fmt: skip
    """Return a draw of `rows` rows of n elements along the first dimension. All other dimensions have the extents in
    `extents`, those that the op fixes, or small ones."""
    first, *others = [dim for dim in op.inputs[0].axes if dim != op.row] or [""]
    sizes = {**dict.fromkeys((*others, *op.further), _FEW), first: rows, op.row: n, **extents, **op.fixed}
    sizes |= grown(op.made, {dim: sizes[dim] for dim in op.named}, op.fixed, op.least)
    outer = tuple(sizes[dim] for dim in op.inputs[0].axes if dim != op.row)
    return Draw(op.name, sizes[op.row], outer, params, seed, tuple(parts), extents={d: sizes[d] for d in op.further})


def dtypes_of(op: Op, main: str) -> Mapping[str, str]:
    found = dict[str, str]()
    for each in op.operands:
        found[each.name] = found.get(each.dtype, each.dtype) or main
    return found


def _is_looked_at(op: Op, output: Operand) -> bool:
    return not output.optional or output.axes == (op.row,)


def _recipe(op: Op, operand: Operand, wished: str) -> str:
    """Return the usual recipe of an operand that is never normal, else the normal one. With another recipe for the
    first input, every operand that can have it gets it."""
    often = menu_of(operand).often
    if wished != PLAIN:
        known = menus_of(op)[operand.name].recipes
        like = wished if operand.name == op.main else LIKE_FIRST
        if like in known:
            return like
    return PLAIN if PLAIN in often else often[0]
