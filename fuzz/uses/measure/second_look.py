"""The second look: runs that pass by what nobody declared, under what was measured.

An order is known at the extents where it was read, and a kernel may have another one elsewhere. So what was measured
first accuses nobody: of the runs that contradict the narrowest order that there could be, the worst are measured again,
with the extents, strides and dtypes of their own cases and the values of designed ones. Only one that contradicts what
is read there is wrong: then nothing but the values differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.draw import GIVEN, Frame
from fuzz.execute.pool import Pool
from fuzz.judge.batch import settle
from fuzz.judge.fitting import Run
from fuzz.uses.measure.bench import Bench, UnmeasurableError
from fuzz.uses.measure.guessing import AGAIN
from fuzz.uses.measure.measuring import casts_at, orders_at, tightened
from fuzz.uses.measure.record import Measured, SumOrder
from oracles.formula.contract import Contract
from oracles.operand import OUTER
from oracles.ops import OPS
from oracles.summation import Read

_MUCH = 2.0
_ANYTHING = ("any", "finite", "addend", "factor", "finite_factor", "logits")
"""The menus of inputs that take any number of moderate size, such as those of designed cases."""
_LOOKED_AT = 4
"""The most runs that are measured again, each of which takes up to a second."""


@dataclass(frozen=True)
class Contradiction:
    """A run that passes by what is left open, and contradicts what the kernel does at its extents."""

    case: Case
    contract: Contract
    """What it does there, and what is left open elsewhere."""


def wrong(target: Target, runs: Sequence[Run], over: Callable[[], bool]) -> Case | None:
    """Return the smallest case that contradicts what is left open too: designed cases have other extents than those of
    a search, where a kernel may be wrong."""
    told = [run for run in runs if run.case.origin.recipe == GIVEN and _is_fair(run.case)]
    for run in sorted(_uncertain(told, target.contract), key=lambda each: each.case.elements):
        if over():
            break
        if run.ratio(target.contract) is None and not run.conforms(target.contract):
            return run.case
    return None


def _is_fair(case: Case) -> bool:
    """Whether inputs may have such values: a designed case has its own in all that have rows."""
    op = OPS[case.op]
    rows = (op.operand(name) for name in case.inputs if op.has_rows(name))
    return all(each.integers or each.values in _ANYTHING for each in rows)


def contradicted(
    pool: Pool, target: Target, measured: Measured, runs: Sequence[Run], over: Callable[[], bool]
) -> Contradiction | None:
    """Return the worst of the runs that contradicts what was measured at its own extents."""
    lenient = target.contract
    sums = {each.along: _narrowest(each, runs) for each in measured.sums}
    narrow = replace(tightened(lenient, (), measured.casts), sums={**lenient.sums, **sums})
    told = [run for run in runs if measured.casts or any(_tells(each, _terms(each, run)) for each in measured.sums)]
    against = [run for run in _uncertain(told, narrow) if run.ratio(narrow) is None]
    suspects = [(ratio, run) for run in against if (ratio := run.ratio(lenient)) is not None]
    for _, run in sorted(suspects, key=lambda each: -each[0])[:_LOOKED_AT]:
        if over():
            break
        contract = _there(Bench(pool, target, run.case), lenient)
        if contract is not None and run.ratio(contract) is None and not run.conforms(contract):
            return Contradiction(run.case, contract)
    return None


def _uncertain(runs: Sequence[Run], contract: Contract) -> Sequence[Run]:
    """The runs that may contradict a contract: those that certainly do not are told apart for all of them at once."""
    queries = [(run, query) for run in runs if (query := run.query(contract)) is not None]
    settle({run.judge.oracle: (query,) for run, query in queries})
    return [run for run, query in queries if query not in run.judge.oracle.known]


def _narrowest(order: SumOrder, runs: Sequence[Run]) -> Read:
    """As narrow as an order may be elsewhere that is of one kind everywhere."""
    chains = dict[int, int]()
    for run in runs:
        terms = _terms(order, run)
        chains[terms] = _chain(order, terms)
    return Read(tuple(chains.items()))


def _terms(order: SumOrder, run: Run) -> int:
    """The number of terms of such a sum in a run."""
    frame = Frame(run.case)
    sizes = {OUTER: math.prod(frame.batch), **frame.sizes}
    return math.prod(sizes[dim] for dim in order.along.split())


def _chain(order: SumOrder, terms: int) -> int:
    share = order.chain * terms / order.terms / (1 if order.read else AGAIN)
    return max(math.floor(share), (terms - 1).bit_length())


def _tells(order: SumOrder, terms: int) -> bool:
    """Whether it would be much narrower than any order."""
    return _chain(order, terms) * _MUCH < terms


def _there(bench: Bench, lenient: Contract) -> Contract | None:
    """What is measured at a case's extents; None where nothing is."""
    try:
        orders, _ = orders_at(bench)
        casts = casts_at(bench, lenient)
    except (UnmeasurableError, ValueError):
        return None
    return tightened(lenient, orders.values(), casts)
