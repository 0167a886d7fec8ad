"""Measuring targets before their search, and the second look at some of its cases afterwards: passing runs are judged
again under the measured contract of the kernel. Failing runs are judged with fewer bits, to say in which precision they
are right.

An order is known only for the extents and values with which it was measured: at others a kernel may add in another
order. So a run that contradicts a measured order is no failure yet. But the worst of these runs are measured again with
designed values, at the extents, strides and dtypes of their own cases. A run that contradicts this measurement too is
reported.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from fuzz.campaign.session import Session
from fuzz.contracts.bench import SumBench, UnmeasurableError
from fuzz.contracts.guessing import AGAIN
from fuzz.contracts.measuring import Measured, SumOrder, casts_at, measured, orders_at, tightened
from fuzz.contracts.runs import TargetRun, gathered
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case
from fuzz.core.base.draw import GIVEN, Frame
from fuzz.core.base.dtypes import numbers, quantise
from fuzz.core.execute.batch import Pool
from fuzz.core.judge.batch import settle
from fuzz.core.laws.registry import Entry
from fuzz.findings.book import FindingBook
from oracles.algorithm import BY_NORM, FORMULA
from oracles.dtypes import DOUBLE, NARROW, SINGLE
from oracles.formula.contract import WIDE, Contract
from oracles.operand import OUTER
from oracles.ops import OPS
from oracles.summation import NumericsError, Read

_MUCH = 2.0
_ANYTHING = ("any", "finite", "addend", "factor", "finite_factor", "logits")
"""The menus of inputs whose values may be any number of moderate size, as those of designed cases are."""
_LOOKED_AT = 4
"""The most runs that are measured again; each takes up to a second. Chosen."""


def wrong(target: Target, runs: Sequence[TargetRun], over: Callable[[], bool]) -> Case | None:
    """Return the smallest designed case that contradicts the declared contract; None if there is none. Designed cases
    have extents that a search does not draw, at which a kernel may be wrong."""
    told = [run for run in runs if run.case.origin.recipe == GIVEN and _is_fair(run.case)]
    for run in sorted(_uncertain(told, target.contract), key=lambda each: each.case.elements):
        if over():
            break
        if run.ratio(target.contract) is None and not run.conforms(target.contract):
            return run.case
    return None


def _is_fair(case: Case) -> bool:
    """Whether the op allows the values of a designed case, in every input that has rows."""
    op = OPS[case.op]
    rows = (op.operand(name) for name in case.inputs if op.has_rows(name))
    return all(each.integers or each.values in _ANYTHING for each in rows)


def contradicted(
    pool: Pool, target: Target, measured: Measured, runs: Sequence[TargetRun], over: Callable[[], bool]
) -> Case | None:
    """Return the case of the worst passing run that contradicts what is measured at its own extents, or None."""
    lenient = target.contract
    sums = {each.along: _narrowest(each, runs) for each in measured.sums}
    narrow = replace(tightened(lenient, (), measured.casts), sums={**lenient.sums, **sums})
    told = [run for run in runs if measured.casts or any(_tells(each, _terms(each, run)) for each in measured.sums)]
    against = [run for run in _uncertain(told, narrow) if run.ratio(narrow) is None]
    suspects = [(ratio, run) for run in against if (ratio := run.ratio(lenient)) is not None]
    for _, run in sorted(suspects, key=lambda each: -each[0])[:_LOOKED_AT]:
        if over():
            break
        contract = _there(SumBench(pool, target, run.case), lenient)
        if contract is not None and run.ratio(contract) is None and not run.conforms(contract):
            return run.case
    return None


def _uncertain(runs: Sequence[TargetRun], contract: Contract) -> Sequence[TargetRun]:
    """Return the runs that may contradict a contract. The oracle settles together those that certainly do not."""
    queries = [(run, query) for run in runs if (query := run.query(contract)) is not None]
    settle({run.judge.oracle: (query,) for run, query in queries})
    return [run for run, query in queries if query not in run.judge.oracle.known]


def _narrowest(order: SumOrder, runs: Sequence[TargetRun]) -> Read:
    """Return the chains that the measured order has for the runs' numbers of terms, if it is of one kind for all."""
    chains = dict[int, int]()
    for run in runs:
        terms = _terms(order, run)
        chains[terms] = _chain(order, terms)
    return Read(tuple(chains.items()))


def _terms(order: SumOrder, run: TargetRun) -> int:
    """Return the number of terms that the sum has in a run."""
    frame = Frame(run.case)
    sizes = {OUTER: math.prod(frame.batch), **frame.sizes}
    return math.prod(sizes[dim] for dim in order.along.split())


def _chain(order: SumOrder, terms: int) -> int:
    share = order.chain * terms / order.terms / (1 if order.read else AGAIN)
    return max(math.floor(share), (terms - 1).bit_length())


def _tells(order: SumOrder, terms: int) -> bool:
    """Whether the order for this many terms is much narrower than a plain loop."""
    return _chain(order, terms) * _MUCH < terms


def _there(bench: SumBench, lenient: Contract) -> Contract | None:
    """Return the contract, tightened by what is measured at the bench's extents; None if nothing is measured there."""
    try:
        orders, _ = orders_at(bench)
        casts = casts_at(bench, lenient)
    except (UnmeasurableError, ValueError):
        return None
    return tightened(lenient, orders.values(), casts)


_USED, _USED_SINGLE, _TRIED = 1 / 32, 1 / 1024, 16
"""The least share of the error that a calculation with fewer bits allows that some run must use. The share for f32 is
smaller, as no sum in f32 has all the error that it may have, while an error of a few ulp of f64 is a millionth. The
last number is how many wrong runs are tried. Chosen."""
_FEW, _MOST_WORK = 3, 1 << 20
"""The least number of runs, and the most terms of all runs together beyond these: some seconds."""
_TELLING, _SEVERAL = 0.1, 3
"""The largest error, as a share of the value, that a calculation with fewer bits may allow, and in how many wrong runs.
With 8 bits a long sum may be anything, so being right with 8 bits would prove little."""
_TF32, _BF16 = 13, 16
"""The last bits of an f32 number, which TF32 and bf16 leave out."""


def right_as(runs: Sequence[TargetRun], contract: Contract) -> str:
    """Return words such as "right as TF32; wrong as f32"; '' if nothing is wrong, or no lower precision fits all."""
    judged = sorted((run for run in runs if run.query(contract) is not None), key=_work)
    # The largest cases cost as much as all others together, so a kernel that is wrong only in these is not examined.
    total = [*accumulate(map(_work, judged))]
    wrong = [run for run in judged[: max(_FEW, bisect_right(total, _MOST_WORK))] if _is_wrong(run, contract)]
    if not wrong:
        return ""
    computes = {run.settled(contract).compute for run in judged}
    for name, fits in _others(wrong[:_TRIED], contract, computes):
        if all(fits(run) for run in (*wrong, *judged)):
            return f"right as {name}; wrong as {_expected(contract, computes)}"
    return ""


def _expected(contract: Contract, computes: Collection[str]) -> str:
    if len(computes) == 1:
        return min(computes)
    return WIDE if contract.compute == WIDE else "its inputs' dtype"


def _others(
    runs: Sequence[TargetRun], contract: Contract, computes: Collection[str]
) -> Iterator[tuple[str, Callable[[TargetRun], bool]]]:
    if DOUBLE.name in computes and _is_used(
        runs, single := replace(contract, compute=SINGLE.name), contract, _USED_SINGLE
    ):
        yield SINGLE.name, lambda run: not _is_wrong(run, single)
    if {*computes} == {SINGLE.name}:
        for name, bits in (("TF32", _TF32), ("f32 with inputs rounded to bf16", _BF16)):
            for rounding in _ROUNDINGS.values():
                yield name, lambda run, bits=bits, rounding=rounding: _fits_rounded(run, contract, bits, rounding)  # type: ignore[misc]
    for dtype in NARROW:
        if {dtype} != {*computes}:
            other = replace(contract, compute=dtype)
            if _is_used(runs, other, contract) and sum(run.share(other) <= _TELLING for run in runs) >= _SEVERAL:
                yield dtype, lambda run, other=other: not _is_wrong(run, other)  # type: ignore[misc]


def _is_used(runs: Iterable[TargetRun], other: Contract, contract: Contract, least: float = _USED) -> bool:
    """Return whether a run has an error as large as the contract `other`, which has fewer bits, would make."""
    return any(run.used(other, contract) > least for run in runs)


def _work(run: TargetRun) -> int:
    """Return the number of terms of the largest step of the op in a run."""
    frame = Frame(run.case)
    return OPS[run.case.op].work({OUTER: math.prod(frame.batch), **frame.sizes})


def _is_wrong(run: TargetRun, contract: Contract) -> bool:
    return run.ratio(contract) is None


def _is_by_norm(contract: Contract) -> bool:
    """Whether parts of complex numbers may be off in proportion to the whole number."""
    return BY_NORM in contract.algorithm.values()


def _needs_norm(runs: Sequence[TargetRun], contract: Contract) -> bool:
    """Whether a run is wrong if each part of a complex number must be right by itself."""
    ways = {local: FORMULA if way == BY_NORM else way for local, way in contract.algorithm.items()}
    by_parts = replace(contract, algorithm=ways)
    return any(_is_wrong(run, by_parts) for run in _uncertain(runs, by_parts))


Rounding = Callable[
    ["np.ndarray[tuple[int, ...], np.dtype[np.uint32]]", int], "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]"
]
_ROUNDINGS: Mapping[str, Rounding] = {
    "nearest even": lambda bits, lost: (
        bits + (np.uint32((1 << lost - 1) - 1) + (bits >> np.uint32(lost) & np.uint32(1)))
    ),
    "nearest away": lambda bits, lost: bits + np.uint32(1 << lost - 1),
    "towards zero": lambda bits, lost: bits,
}


def _fits_rounded(run: TargetRun, contract: Contract, lost: int, rounding: Rounding) -> bool:
    """Whether the outputs are right if the inputs are rounded to fewer bits first."""
    other = TargetRun(_rounded(run.case, lost, rounding), run.outcome, target=run.target)
    try:
        return not _is_wrong(other, contract)
    except NumericsError:
        return False


def _rounded(case: Case, lost: int, rounding: Rounding) -> Case:
    inputs = dict(case.inputs)
    for name, tensor in case.inputs.items():
        if tensor.dtype == SINGLE.name and name not in OPS[case.op].integers:
            values = numbers(tensor.bits, tensor.dtype, tensor.layout.shape)
            bits = rounding(values.view(np.uint32), lost) & np.uint32(0xFFFFFFFF << lost & 0xFFFFFFFF)
            kept = np.where(np.isfinite(values), bits.view(np.float32), values)
            inputs[name] = replace(tensor, bits=quantise(kept.astype(np.float64), tensor.dtype).tobytes())
    return replace(case, inputs=inputs)


_FURTHER = "off by more than this explains where {}; right with sums in any order, and casts or none"
_NORM = "right by norm only: a part that is small beside the other may have no right digit"
_CASES, _FAILING = 64, 32
"""The number of cases of a search that are run again, and of the smallest of these runs that are judged again."""


@dataclass
class Measuring:
    """The measurements and notes on targets, by their ids. They are information, and by themselves never make a kernel
    fail."""

    pool: Pool
    targets: Sequence[Target]
    seed: int
    records: dict[str, Measured] = field(default_factory=dict)
    right_as: dict[str, str] = field(default_factory=dict)
    _runs: dict[str, Sequence[TargetRun]] = field(default_factory=dict, repr=False)
    """The runs that are looked at again, by target."""

    def measure(self) -> None:
        """Measure all targets that run."""
        for target in self.targets:
            if not isinstance(self.pool.statuses.get(target.id), NotRun):
                found = measured(self.pool, target, target.contract)
                self.records[target.id] = replace(found, configuration=target.configuration.text)

    def look_ahead(self, max_cases: int) -> None:
        """Run the cases that `ended` will need, before the search ends."""
        for target in self.targets:
            if target.id in self.records and (self.records[target.id].tightens or _is_by_norm(target.contract)):
                self._run(target, max_cases, math.inf)

    @property
    def text(self) -> str:
        """A line for each target."""
        return "\n  ".join(self.line(each) for each in self.records)

    def line(self, target: str) -> str:
        """Return the line of one target: what was measured, and if it is wrong, in which precision it is right."""
        named = f"{target} " if len(self.records) > 1 else ""
        more = self.right_as.get(target, "")
        return f"{named}{self.records[target].text}{f'; {more}' if more else ''}"

    def ended(self, session: Session, book: FindingBook, max_cases: int | None) -> None:
        """Run cases of the search again. Find the lower precision in which a failing target is right. Judge a passing
        target with designed cases under the measured contract, and report a case that contradicts it."""
        failing = {bucket.judgement.target for bucket in book.buckets.values() if bucket.finding is not None}
        ends = time.monotonic() + (session.limits.max_time or math.inf)
        for target in self.targets:
            if target.id not in self.records or session.interruption.wanted:
                continue
            tightens, by_norm = self.records[target.id].tightens, _is_by_norm(target.contract)
            if not (target.id in failing or tightens or by_norm):
                continue
            runs = self._run(target, max_cases, ends)
            smallest = sorted(runs, key=lambda run: run.case.elements)[:_FAILING]
            if target.id in failing:
                self.right_as[target.id] = right_as(smallest, target.contract)
                continue
            if by_norm and _needs_norm(smallest, target.contract):
                self.right_as[target.id] = _NORM
            if not tightens:
                continue
            if (case := wrong(target, runs, lambda: time.monotonic() > ends)) is not None:
                session.runner([target], search=False).run_entries([[Entry(case)]])
                continue
            case = contradicted(self.pool, target, self.records[target.id], runs, lambda: time.monotonic() > ends)
            if case is not None:
                where = ", ".join(f"{dim} = {size}" for dim, size in Frame(case).sizes.items())
                self.right_as[target.id] = _FURTHER.format(where)

    def _run(self, target: Target, max_cases: int | None, ends: float) -> Sequence[TargetRun]:
        if target.id not in self._runs:
            most = min(_CASES, max_cases or _CASES)
            found = gathered(self.pool, target, self.seed, most, lambda: time.monotonic() > ends)
            self._runs[target.id] = found
        return self._runs[target.id]
