"""What a kernel takes beside what it declares: other strides, dtypes and ranks are tried, and told, and held against
nobody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Literal

from fuzz.adapters.target import NotRun, Target
from fuzz.base.capability import Strides
from fuzz.base.case import Case
from fuzz.base.draw import Draw
from fuzz.base.outcome import Outcome, Status
from fuzz.execute.pool import Pool
from fuzz.generate.dims import ranks_of
from fuzz.generate.storage import grids, laid_out
from fuzz.generate.variations import extended, made, sized
from fuzz.judge.fitting import Run
from fuzz.uses.measure.accepts import accepted, own_refusal
from fuzz.uses.measure.bench import Bench, UnmeasurableError
from fuzz.uses.measure.measuring import template
from oracles.dtypes import SINGLE, form
from oracles.formula.contract import Contract
from oracles.operand import OUTER
from oracles.ops import OPS

Answer = Literal["right", "right as it rounds each step", "wrong values", "raises", "refuses"]
"""It "refuses" by a statement of its own, see `own_refusal`; what a library raises that it calls is no such."""
_LAYOUTS: Mapping[str, Strides] = {
    "pitched": "pitched", "padded": "rows", "column_step": "any", "transposed": "any",
}  # fmt: skip
"""The classes that are tried, and what declares them; who takes one takes those before it."""
DTYPES = ("f32", "f64", "f16", "bf16")
_USUAL, _BATCH, _MOST = 64, 3, 1 << 12
"""The extent along a row, which kernels that take multiples take too, of other dimensions without a name, and the most
elements."""

Contracts = Callable[[str], Contract]
"""What a kernel is held against in a dtype."""
Workers = Callable[[Target], AbstractContextManager[Pool]]
"""A pool in which a target is given what it does not declare."""


@dataclass(frozen=True)
class Accepts:
    """What one target does with what it does not declare."""

    target: str
    row: str
    """The name of its first input."""
    declared: tuple[str, ...]
    """The dtypes that are declared."""
    layouts: Mapping[str, Answer] = field(default_factory=dict)
    """By the class of strides of all inputs that have rows."""
    dtypes: Mapping[str, Answer] = field(default_factory=dict)
    ranks: Mapping[str, Answer] = field(default_factory=dict)
    """By the number of dimensions of its first input."""
    multiple_of: Mapping[str, int] = field(default_factory=dict)
    """What extents must be multiples of, where it refuses others."""
    max: Mapping[str, int] = field(default_factory=dict)
    """The longest extents, where it refuses longer ones."""
    refused: tuple[str, ...] = ()
    """Where it refuses what it refuses, such as "asserted in kernel.py line 12"."""
    usual: Answer = "right"
    """What it does with an ordinary case of what it declares."""
    untried: Mapping[str, str] = field(default_factory=dict)
    """Why it was not given some dtypes, such as one that an interpreter gets wrong."""

    @property
    def text(self) -> str:
        """One line, such as "accepts: contiguous x only (wrong values with transposed), f64: declare ..."."""
        said, fields = list[str](), list[str]()
        if {*self.ranks.values()} - {"right"}:
            taken = f"{self.row} of {_list(map(str, self.taken_ranks))} dimensions only" if self.taken_ranks else ""
            said.append(f"{taken or f'no number of dimensions of {self.row} that was tried'} ({_others(self.ranks)})")
        if self.multiple_of or self.max:
            steps = [f"{dim} in multiples of {step} only" for dim, step in self.multiple_of.items()]
            bounds = [f"{dim} up to {most} only" for dim, most in self.max.items()]
            said.append(f"{' and '.join([*steps, *bounds])}{self._where}")
            given = {"multiple_of": self.multiple_of, "max": self.max}
            fields += [f"{name}={json.dumps(dict(each))}" for name, each in given.items() if each]
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
        """A line of its own for what nobody should overlook: dtypes that it takes and gets wrong."""
        wrong = [dtype for dtype, answer in self.dtypes.items() if answer == "wrong values"]
        dtypes = ", ".join(json.dumps(dtype) for dtype in (*self.declared, *wrong))
        why = f"no failure, as {_list(self.declared)} alone is declared; to see where, declare dtypes=({dtypes})"
        return [f"wrong values with {_list(wrong)}: {why}"] if wrong else []

    @property
    def _where(self) -> str:
        return f" ({' and '.join(self.refused)})" if self.refused else ""

    @property
    def strides(self) -> Strides:
        """The loosest strides of which it is right with all that were tried."""
        found: Strides = "contiguous"
        for layout, strides in _LAYOUTS.items():
            if self.layouts.get(layout) != "right":
                break
            found = strides
        return found

    @property
    def taken_ranks(self) -> tuple[int, ...]:
        """The numbers of dimensions that it is right with."""
        return tuple(int(rank) for rank, answer in self.ranks.items() if answer == "right")


def _others(answers: Mapping[str, Answer]) -> str:
    """Such as "raises with f64, wrong values with f16 and bf16"."""
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
    """Return what a target does with strides and dtypes that it does not declare, and with other ranks and extents. Of
    one that is wrong without all that the ranks alone are known; None of one that raises, or declares such itself."""
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


def untried(pool: Pool, target: Target, dtype: str) -> str:
    """Return why no case of a dtype is run on a target, whatever the kernel does; "" where it is."""
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
    """A target that is given what it does not declare."""

    pool: Pool
    target: Target
    contracts: Contracts
    refused: dict[str, None] = field(default_factory=dict)
    """Where it refused a case."""

    def draw(self, dtype: str) -> Draw:
        """Return a usual case of a dtype."""
        base, op = template(self.target, dtype).draw, OPS[self.target.kernel.op]
        most = max(len(each.axes) for each in op.inputs)
        size = next(size for size in (_USUAL, 16, 8, 4, 2) if size**most <= _MOST or size == 2)
        sizes = {dim: op.fixed.get(dim, size) for dim in base.sizes}
        return sized(extended(base, sizes), _BATCH, 2 if OUTER in op.inputs[0].axes else None)

    def answer(self, draw: Draw) -> Answer:
        """Return what it does with a case."""
        case = made(draw)
        [outcome] = Bench(self.pool, self.target, case).run([case])
        if where := own_refusal(outcome):
            self.refused[where] = None
            return "refuses"
        if outcome.status is not Status.RAN:
            return "wrong values" if outcome.status in (Status.WRONG_SHAPE, Status.WRONG_DTYPE) else "raises"
        return self._judged(case, outcome)

    def _judged(self, case: Case, outcome: Outcome) -> Answer:
        dtype = case.inputs[OPS[case.op].main].dtype
        contract = self.contracts(dtype)
        run = Run(case, outcome, target=self.target)
        if outcome.unwritten or outcome.damage or run.query(contract) is None:
            return "wrong values"
        if run.ratio(contract) is not None:
            return "right"
        coarse = form(dtype).precision < SINGLE.precision
        if coarse and run.ratio(replace(contract, compute=dtype)) is not None:
            return "right as it rounds each step"
        return "wrong values"
