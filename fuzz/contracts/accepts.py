"""What a kernel accepts beyond its declaration: other extents, strides, dtypes, ranks. No answer is a failure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Literal

from fuzz.contracts.bench import SumBench, Template, UnmeasurableError, template
from fuzz.contracts.runs import TargetRun
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.capability import Strides
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.batch import Pool
from fuzz.core.generate.dims import ranks_of
from fuzz.core.generate.storage import grids, laid_out
from fuzz.core.generate.variations import extended, made, rank_of, sized
from oracles.dtypes import DOUBLE, NARROW, SINGLE, form
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.operand import OUTER, Operand
from oracles.ops import OPS

_STEPS = (2, 4, 8, 16, 32, 64)
_USUAL = 64
"""An extent that is a multiple of every step that kernels usually require."""
_MOST = 1 << 16
"""The most elements of one of a case's tensors."""
_EXTENTS = (1, 3, 5, 6, 12, 20, 24, 40, 48, 96, 112, 160, 192)
_LONG = (256, 512, 1024, 2048, 4096, 8192)
"""Extents beyond which a kernel may refuse everything; a case with one has at most `_MOST_LONG` elements."""
_MOST_LONG = 1 << 19
_MOST_SHORT = 1 << 21
"""The most elements of a case whose extents are all shorter than those in `_LONG`."""
_ROWS = 2
_FEWEST = 3
"""The fewest of the tried extents that a kernel must take for a pattern in them to be reported. Chosen."""
_REFUSED = (Status.RAISED, Status.REJECTED)
_OWN = re.compile(
    r"(?:AssertionError|NotImplementedError|RuntimeError|TypeError|ValueError)\b.* \((\S+ line \d+): (assert|raise)\b"
)
"""Matches, in a worker's report, an exception that a statement of the kernel itself raises."""
Refuses = Callable[[Outcome], str]
"""A function that returns in words where a kernel refused a case; "" if it did not."""


@dataclass(frozen=True)
class Accepted:
    """The extents that a kernel takes, if it refuses some."""

    multiple_of: Mapping[str, int]
    refused: Case
    """The smallest case that the kernel refuses."""
    max: Mapping[str, int] = field(default_factory=dict)
    """The longest extents that the kernel takes, by dimension, if it refuses longer ones."""
    where: tuple[str, ...] = ()
    """The places in the source that refuse, such as "asserted in kernel.py line 12"."""

    @property
    def text(self) -> str:
        """The extents and how to declare them: "takes ... only: declare multiple_of={"n": 8} in its capabilities"."""
        return f"takes {self.taken} only: declare {', '.join(_declared(self))} in its capabilities"

    @property
    def taken(self) -> str:
        """The extents in words, such as "n in multiples of 8"."""
        return _extents(self)

    def narrowed(self, target: Target) -> Target:
        """Return the target with capabilities that allow only these extents."""
        able = replace(target.kernel.capabilities, multiple_of=self.multiple_of, max=self.max)
        return replace(target, kernel=replace(target.kernel, capabilities=able))


def _raises(outcome: Outcome) -> str:
    """Return "it raises" if the kernel raised or returned another shape, as some do that halve odd rows; else ""."""
    return "it raises" if outcome.status in (*_REFUSED, Status.WRONG_SHAPE) else ""


def own_refusal(outcome: Outcome) -> str:
    """Return where a statement of the kernel itself raised, such as "asserted in kernel.py line 12". Return "" if none
    did: an exception from a library that the kernel calls is no refusal of the kernel."""
    found = _OWN.match(outcome.detail) if outcome.status in _REFUSED else None
    return f"{'asserted' if found[2] == 'assert' else 'raised'} in {found[1]}" if found is not None else ""


def accepted(pool: Pool, target: Target, refuses: Refuses = _raises, *, long: bool = False) -> Accepted | None:
    """Return the extents that a kernel takes, if along some dimension they are the multiples of a power of two or, with
    `long`, those up to some length. Return None if it refuses no extent, or if there is no such pattern."""
    able, steps, refused = target.kernel.capabilities, dict[str, int](), list[Case]()
    most, where = dict[str, int](), dict[str, None]()
    if able.multiple_of or able.max:
        return None
    try:
        base = template(target, able.dtypes[0])
        for dim in OPS[target.kernel.op].named:
            if dim in OPS[target.kernel.op].fixed:
                continue
            every = (*_EXTENTS, *(_LONG if long else ()))
            sizes = [size for size in every if is_few(OPS[base.draw.op], _sizes(base, dim, size))]
            cases = {size: _sized(base, dim, size) for size in (_USUAL, *sizes)}
            bench = SumBench(pool, target, cases[_USUAL])
            places = {size: refuses(outcome) for size, outcome in zip(cases, bench.run([*cases.values()]), strict=True)}
            taken = [size for size, place in places.items() if not place]
            longest = max(taken, default=0)
            if long and len(taken) < _FEWEST:
                continue
            step = _step([size for size, place in places.items() if place and size < longest], taken)
            if step is None and any(place for size, place in places.items() if size < longest):
                continue
            if step is not None:
                steps[dim] = step
            is_bounded = long and 0 < longest < max(places)
            if is_bounded:
                most[dim] = longest
            if step is not None or is_bounded:
                refused += [cases[size] for size, place in places.items() if place]
                where.update(dict.fromkeys(place for place in places.values() if place))
    except (UnmeasurableError, ValueError):
        return None
    if not refused:
        return None
    return Accepted(steps, min(refused, key=lambda case: case.elements), most, tuple(where))


def _sized(base: Template, dim: str, size: int) -> Case:
    rank = max(2, rank_of(base.draw)) if OUTER in OPS[base.draw.op].inputs[0].axes else None
    return made(sized(extended(base.draw, _sizes(base, dim, size)), _ROWS, rank))


def _sizes(base: Template, dim: str, size: int) -> Mapping[str, int]:
    op = OPS[base.draw.op]
    most = max(len(each.axes) for each in op.inputs)
    alike = {usual: dict.fromkeys(base.draw.sizes, usual) for usual in reversed(_STEPS) if usual**most <= _MOST}
    usual = next((each for each, sizes in alike.items() if max(_elements(op, sizes, op.outputs)) <= _MOST), 1)
    return {**dict.fromkeys(base.draw.sizes, usual), dim: size}


def is_few(op: Op, sizes: Mapping[str, int]) -> bool:
    """Return whether a case with these extents is tried: the op has them, and the oracle can judge so many elements."""
    return 0 < sum(_elements(op, sizes, op.inputs)) <= (_MOST_LONG if max(sizes.values()) >= _LONG[0] else _MOST_SHORT)


def _elements(op: Op, sizes: Mapping[str, int], of: Sequence[Operand]) -> list[int]:
    """Return the number of elements of each tensor, or [0] if the op cannot have these extents."""
    whole = op.whole({**sizes, **op.fixed})
    return [0] if whole is None else [math.prod(whole.get(axis, _ROWS) for axis in each.axes) for each in of]


def _step(refused: Sequence[int], taken: Sequence[int]) -> int | None:
    """Return a power of two that divides all taken extents and no refused one; None if there is none."""
    fitting = (step for step in _STEPS if all(size % step == 0 for size in taken))
    return next((step for step in fitting if all(size % step for size in refused)), None) if refused else None


Answer = Literal["right", "right as it rounds each step", "wrong values", "returns another dtype", "raises", "refuses"]
"""What a kernel does with a case. "refuses" means that a statement of its own raises, see `own_refusal`; "raises" that
a library which it calls does."""
_LAYOUTS: Mapping[str, Strides] = {
    "pitched": "pitched", "padded": "rows", "column_step": "any", "transposed": "any",
}  # fmt: skip
"""The layout classes that are tried, with the `strides` that declare each; each value includes those above."""
DTYPES = (SINGLE.name, DOUBLE.name, *NARROW)
_USUAL_ROW, _BATCH, _MOST_USUAL = 64, 3, 1 << 12
"""A usual case's extent of named dimensions, its extent of unnamed ones, and the most elements of a tensor."""

Contracts = Callable[[str], Contract]
"""A function that returns the contract by which a kernel is judged in a dtype."""
Workers = Callable[[Target], AbstractContextManager[Pool]]
"""A function that opens a pool for a target whose capabilities were widened."""


@dataclass(frozen=True)
class Accepts:
    """What one target does with cases beyond its declaration."""

    target: str
    row: str
    """The name of the first input."""
    declared: tuple[str, ...]
    """The declared dtypes."""
    layouts: Mapping[str, Answer] = field(default_factory=dict)
    """The answers, by the layout class of all inputs that have rows."""
    dtypes: Mapping[str, Answer] = field(default_factory=dict)
    ranks: Mapping[str, Answer] = field(default_factory=dict)
    """The answers, by the number of dimensions of the first input."""
    multiple_of: Mapping[str, int] = field(default_factory=dict)
    """The numbers of which the extents must be multiples, by dimension, if the kernel refuses other extents."""
    max: Mapping[str, int] = field(default_factory=dict)
    """The longest extents that the kernel takes, by dimension, if it refuses longer ones."""
    refused: tuple[str, ...] = ()
    """The places in the source that refuse a case, such as "asserted in kernel.py line 12"."""
    usual: Answer = "right"
    """The answer for a usual case within the declaration."""
    untried: Mapping[str, str] = field(default_factory=dict)
    """The dtypes that were not tried, with the reason, such as an interpreter that gets them wrong."""

    @property
    def text(self) -> str:
        """A line such as "accepts: contiguous x only (wrong values with transposed), f64"; another for wrong dtypes."""
        said, fields = list[str](), list[str]()
        if {*self.ranks.values()} - {"right"}:
            taken = f"{self.row} of {_list(map(str, self.taken_ranks))} dimensions only" if self.taken_ranks else ""
            said.append(f"{taken or f'no number of dimensions of {self.row} that was tried'} ({_others(self.ranks)})")
        if self.multiple_of or self.max:
            said.append(f"{_extents(self, ' only')}{self._where}")
            fields += _declared(self)
        if self.usual == "refuses":
            said.append(f"none of the cases that were tried{self._where}")
        if self.layouts:
            others = f" ({_others(self.layouts)})" if self.strides != "any" else ""
            words = {"any": "any strides", "contiguous": f"contiguous {self.row} only{others}"}
            said.append(words.get(self.strides, f"strides of {self.strides} only{others}"))
            fields += [f'strides="{self.strides}"'] if self.strides != "contiguous" else []
        right = [dtype for dtype, answer in self.dtypes.items() if answer == "right"]
        if right:
            said.append(_list(right))
            fields.append(f"dtypes=({', '.join(json.dumps(dtype) for dtype in (*self.declared, *right))})")
        if self.dtypes and len(right) < len(self.dtypes):
            others = _others({dtype: answer for dtype, answer in self.dtypes.items() if answer != "wrong values"})
            only = f"{_list(self.declared)} only{f' ({others})' if others else ''}"
            said += [others if right else only] if others or not right else []
        said += [f"{dtype} not tried ({why})" for dtype, why in self.untried.items()]
        if not said:
            return ""
        declare = f"; declare {', '.join(fields)} in its capabilities to have that judged" if fields else ""
        return "\n  ".join([f"accepts: {', '.join(said)}{declare}", *self._wrong])

    @property
    def _wrong(self) -> Sequence[str]:
        """A line of its own for the dtypes that the kernel takes but gets wrong, which nobody should overlook."""
        wrong = [dtype for dtype, answer in self.dtypes.items() if answer == "wrong values"]
        dtypes = ", ".join(json.dumps(dtype) for dtype in (*self.declared, *wrong))
        why = f"no failure, as {_list(self.declared)} alone is declared; to see where, declare dtypes=({dtypes})"
        return [f"wrong values with {_list(wrong)}: {why}"] if wrong else []

    @property
    def _where(self) -> str:
        return f" ({' and '.join(self.refused)})" if self.refused else ""

    @property
    def strides(self) -> Strides:
        """The most general of the tried strides with which the kernel is right."""
        found: Strides = "contiguous"
        for layout, strides in _LAYOUTS.items():
            if self.layouts.get(layout) != "right":
                break
            found = strides
        return found

    @property
    def taken_ranks(self) -> tuple[int, ...]:
        """The numbers of dimensions with which the kernel is right."""
        return tuple(int(rank) for rank, answer in self.ranks.items() if answer == "right")


def _extents(taken: Accepted | Accepts, only: str = "") -> str:
    """Return the extents that are taken, such as "n in multiples of 8 and m up to 512"."""
    steps = [f"{dim} in multiples of {step}{only}" for dim, step in taken.multiple_of.items()]
    return " and ".join([*steps, *(f"{dim} up to {most}{only}" for dim, most in taken.max.items())])


def _declared(taken: Accepted | Accepts) -> list[str]:
    """Return the arguments of `Capabilities` that declare these extents."""
    given = {"multiple_of": taken.multiple_of, "max": taken.max}
    return [f"{name}={json.dumps(dict(each))}" for name, each in given.items() if each]


def _others(answers: Mapping[str, Answer]) -> str:
    """Return words such as "raises with f64, wrong values with f16 and bf16"."""
    found = dict[str, list[str]]()
    for name, answer in answers.items():
        if answer != "right":
            found.setdefault(answer, []).append(name)
    return ", ".join(f"{answer} with {_list(names)}" for answer, names in found.items())


def _list(words: Iterable[str]) -> str:
    *most, last = [*words]
    return f"{', '.join(most)} and {last}" if most else last


def accepts(
    workers: Workers, target: Target, contracts: Contracts, *, dtypes: Sequence[str] = DTYPES, multiples: bool = False
) -> Accepts | None:
    """Return what a target does with strides, dtypes and ranks that it does not declare, and with `multiples` also with
    other extents. If it is wrong within its declaration, only ranks are tried. Return None if it raises there, or if it
    declares strides or several dtypes itself."""
    able = target.kernel.capabilities
    if able.strides != "contiguous" or len(able.dtypes) > 1 or able.mixed or able.outside != "undefined":
        return None
    others = [dtype for dtype in dtypes if dtype not in able.dtypes]
    wide = replace(able, strides="any", dtypes=(*able.dtypes, *others))
    wider = replace(target, kernel=replace(target.kernel, capabilities=wide))
    try:
        with workers(wider) as pool:
            trial = _Trial(pool, wider, contracts)
            usual = trial.draw(able.dtypes[0])
            answer, main = trial.answer(usual), OPS[target.kernel.op].main
            if answer == "refuses" and multiples:
                return Accepts(target.id, main, able.dtypes, refused=tuple(trial.refused), usual=answer)
            if answer in ("raises", "refuses"):
                return None
            found = Accepts(target.id, main, able.dtypes, ranks=_ranks(trial, usual))
            if answer != "right":
                raised = ("raises", "refuses")
                return replace(
                    found, ranks={k: v if v in raised else "right" for k, v in found.ranks.items()}, usual=answer
                )  # fmt: skip
            taken = accepted(pool, wider, own_refusal, long=True) if multiples else None
            reasons = {dtype: why for dtype in others if (why := untried(pool, wider, dtype))}
            answers = {dtype: trial.answer(trial.draw(dtype)) for dtype in others if dtype not in reasons}
            found = replace(found, layouts=_layouts(trial, usual), dtypes=answers, untried=reasons)
            if taken is not None:
                return replace(found, multiple_of=taken.multiple_of, max=taken.max, refused=taken.where)
            return found
    except (UnmeasurableError, ValueError):  # what the case or the formula refuses
        return None


def usually(pool: Pool, target: Target, contract: Contract, dtype: str) -> Answer:
    """Return what a target does with a usual case in a dtype that it declares."""
    try:
        trial = _Trial(pool, target, lambda _: contract)
        return trial.answer(trial.draw(dtype))
    except (UnmeasurableError, ValueError):  # what the case or the formula refuses
        return "refuses"


def untried(pool: Pool, target: Target, dtype: str) -> str:
    """Return why no case of a dtype can be run on a target, whatever the kernel does; "" if one can."""
    status = pool.statuses.get(target.id)
    return "" if status is None or isinstance(status, NotRun) else status.wrong_dtypes.get(dtype, "")


def _layouts(trial: _Trial, usual: Draw) -> Mapping[str, Answer]:
    op = OPS[usual.op]
    names = [name for name in grids(usual) if op.is_input(name)]
    return {layout: trial.answer(laid_out(usual, dict.fromkeys(names, layout))) for layout in _LAYOUTS}


def _ranks(trial: _Trial, usual: Draw) -> Mapping[str, Answer]:
    op = OPS[usual.op]
    ranks = ranks_of(op) if OUTER in op.inputs[0].axes else ()
    return {str(rank): trial.answer(_of_rank(usual, rank)) for rank in ranks}


def _of_rank(usual: Draw, rank: int) -> Draw:
    without = rank - len(OPS[usual.op].inner) + 1
    return sized(usual, _BATCH if without > 1 else 1, without, axis=rank - 1)


@dataclass(frozen=True)
class _Trial:
    """A target with widened capabilities, and the pool that it runs in."""

    pool: Pool
    target: Target
    contracts: Contracts
    refused: dict[str, None] = field(default_factory=dict)
    """The places in the source that refused a case, in order."""

    def draw(self, dtype: str) -> Draw:
        """Return a draw of a usual case in a dtype."""
        base, op = template(self.target, dtype).draw, OPS[self.target.kernel.op]
        most = max(len(each.axes) for each in op.inputs)
        size = next(size for size in (_USUAL_ROW, 16, 8, 4, 2) if size**most <= _MOST_USUAL or size == 2)
        sizes = {dim: op.fixed.get(dim, size) for dim in base.sizes}
        return sized(extended(base, sizes), _BATCH, 2 if OUTER in op.inputs[0].axes else None)

    def answer(self, draw: Draw) -> Answer:
        """Return what the target does with a draw's case."""
        case = made(draw)
        [outcome] = SumBench(self.pool, self.target, case).run([case])
        if where := own_refusal(outcome):
            self.refused[where] = None
            return "refuses"
        if outcome.status is not Status.RAN:
            ways: Mapping[Status, Answer] = {
                Status.WRONG_SHAPE: "wrong values",
                Status.WRONG_DTYPE: "returns another dtype",
            }
            return ways.get(outcome.status, "raises")
        return self._judged(case, outcome)

    def _judged(self, case: Case, outcome: Outcome) -> Answer:
        dtype = case.inputs[OPS[case.op].main].dtype
        contract = self.contracts(dtype)
        run = TargetRun(case, outcome, target=self.target)
        if outcome.unwritten or outcome.damage or run.query(contract) is None:
            return "wrong values"
        if run.ratio(contract) is not None:
            return "right"
        coarse = form(dtype).precision < SINGLE.precision
        if coarse and run.ratio(replace(contract, compute=dtype)) is not None:
            return "right as it rounds each step"
        return "wrong values"
