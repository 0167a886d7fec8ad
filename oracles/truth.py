"""The truth about one problem: it judges outputs of any number of kernels, and explains its judgements."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import mpmath
import numpy as np
from numpy.typing import NDArray

from oracles.doubledouble import F64, DoubleDouble, head
from oracles.dtypes import DTYPES, FORMATS, Integer, judged
from oracles.enclosure import (
    FORBIDDEN,
    Enclosure,
    Mask,
    Worst,
    compare,
    is_blunt,
    passes,
    worst_of,
    worst_pass,
)
from oracles.escalation import PreciseProgress, break_off, narrowed, settled
from oracles.formula.contract import Contract
from oracles.formula.exact.deadline import LateError, deadline
from oracles.lazy import lazy
from oracles.precise import MOST, START, Bounds, conforms, stable
from oracles.problem import Problem, ProblemError, index_of, lots
from oracles.rounding import stored_as
from oracles.tiers import joined, screen
from oracles.tiers.conformance import unjudged_in
from oracles.tiers.elements import Elements
from oracles.tiers.joined import Answer, Asked, Query, Received
from oracles.tiers.problem import FormulaProblem

if TYPE_CHECKING:
    from oracles.breakdown import Breakdown

Result = Literal["pass", "numeric", "nonfinite", "gave_up"]

_KEEP_ELEMENTS = 1 << 20
"""The most elements of a first input for which results are kept for further contracts and kernels: enclosures, which
take 40 bytes for each element, screens and outputs."""
_CONFIRM_S = 10.0
"""The limit in processor seconds for the precise tier to confirm an element that certainly fails: in a network one
element may take minutes. The number was chosen, not measured."""
_KEEP_BOUNDS = 1 << 14
"""The most bounds of single elements that are kept for other kernels. Each takes some hundred bytes."""
SAMPLE = 64
"""The precise tier confirms one pass in SAMPLE + n, where n is the number of elements that it reads to do so."""


class OracleDisagreement(RuntimeError):  # noqa: N818 (not an error of the caller)
    """The two tiers contradict each other: an error in the oracle. No judgement of the session can be trusted."""


class GaveUp(RuntimeError):  # noqa: N818 (an answer, not a mistake)
    """The precise tier reached no decision, since no two precisions agree."""


@dataclass(frozen=True)
class OutputCheck:
    """The judgement of one output of one kernel. Indices are into the output as the kernel returned it."""

    output: str
    result: Result
    worst_index: tuple[int, ...] | None
    """The element with the largest err/budget; None for an empty output."""
    worst_ratio: float
    """The largest err/budget of the output's elements, at `worst_index`: at most 1 if and only if the output passes."""
    failing: int = 0
    """The number of failing elements."""
    contradicts: bool = False
    """Whether the worst element lies outside the worst-case budget too, so that no kernel of the contract returns
    it."""
    escalated: int = 0
    """The number of elements that only the precise tier could decide."""
    late: int = 0
    """The number of elements about which the precise tier had no time to decide."""
    blunt: bool = False
    """Whether `worst_ratio` of a pass means nothing, since the last rounding of the worst element is larger than all
    other allowed errors."""
    mask: Mask | None = field(default=None, repr=False, compare=False)
    """Mask of the failing elements, in the shape of the output; None if no element fails."""
    again: bool = False
    """Whether the output fails only because it does not follow from other returned outputs, see `Truth.again`."""


class Truth:
    """The judge of outputs for one problem. Enclosures are calculated once per contract and shared by its kernels."""

    def __init__(
        self, problem: Problem, *, confirms: bool = True, unknown: Mapping[str, Mask] = MappingProxyType({})
    ) -> None:
        """Raises `ProblemError` if inputs, params and outputs do not fit the op or each other. Without `confirms`, the
        precise tier does not confirm elements that certainly fail, and no check `contradicts`: for many runs of which
        only one will be shown. Elements that depend on `unknown` elements of inputs are not judged."""
        self.problem = problem
        self.confirms = confirms
        self.op = FormulaProblem(problem)
        self._unjudged = self.op.following(unknown) if unknown else {}
        """Masks, by output, of the elements that are not judged under any contract, in canonical shape."""
        self.elements = Elements(self.op)
        self._enclosures: dict[tuple[Contract, bool, bool], Mapping[str, Enclosure]] = {}
        self._bounds: dict[tuple[Contract, str, tuple[int, ...], bool, bool], Bounds | None] = {}
        self._screened: set[tuple[Contract, Received]] = set()
        """The contracts and outputs about which screens and joined enclosures decided nothing."""
        self._passes: dict[tuple[str, int, float, bool], OutputCheck] = {}
        """Checks that pass, by output and worst element: kernels with the same result share one check."""

    @property
    def keeps(self) -> bool:
        """Whether results for contracts and outputs are small enough to be kept."""
        return self.problem.main.size <= _KEEP_ELEMENTS

    def receive(self, outputs: Mapping[str, NDArray[Any]]) -> Received:
        """Return outputs ready to be judged under several contracts. `outputs` hold logical values in the storage dtype
        of the problem's outputs. Raises `ProblemError` for a missing output, a wrong shape or dtype."""
        return Received({name: self._canonical(name, outputs) for name in self.problem.outputs})

    def check(self, contract: Contract, outputs: Mapping[str, NDArray[Any]] | Received) -> tuple[OutputCheck, ...]:
        """Return the judgement of all outputs of one kernel that promises `contract`: one check for each output of the
        problem, in the problem's order. Raises `ProblemError` as `receive` does; `NumericsError` for a contract that
        does not fit this problem; `OracleDisagreement` if the tiers contradict each other."""
        received = outputs if isinstance(outputs, Received) else self.receive(outputs)
        about = [(self.op, self.problem.structured, [(contract, received)])]
        asks = self.keeps and not self._unjudged and (contract, received) not in self._screened
        ((known,),) = screen.certain(about) if asks else [[None]]
        each = [None] * len(self.problem.outputs) if known is None else known
        checks = tuple(
            self._check(name, contract, received, worst) for name, worst in zip(self.problem.outputs, each, strict=True)
        )
        return self._checked_again(contract, received, checks) if self._leaves_open(contract) else checks

    def _leaves_open(self, contract: Contract) -> bool:
        """Whether the contract allows several values for outputs from which others follow, and kernels then calculate
        the others from the value that they return. Contracts in fewer bits than f32 do not count: there a code is
        rounded before it is stored, as near 127 in bf16, where numbers are 1/2 apart."""
        if self.op.of_op.from_returned is None:
            return False
        contract = self.op.settled(contract)
        if not {contract.compute, *contract.dtypes.values()} <= {"f32", "f64"}:
            return False
        points = (contract.point(name) for name in self.op.plain.points)
        return not contract.follows or not all(point is not None and point.always for point in points)

    def _checked_again(
        self, contract: Contract, received: Received, checks: tuple[OutputCheck, ...]
    ) -> tuple[OutputCheck, ...]:
        """Return the checks, with a failure for each output that does not follow from other returned outputs."""
        op = self.op.of_op.from_returned
        if op is None or any(each.result != "pass" for each in checks):
            return checks
        enclosures = self.enclosures(contract, self.problem.structured).items()
        given = {name: each for name, each in enclosures if op.is_input(name)}
        if all((each.outer[0] == each.outer[1]).all() for each in given.values()):
            return checks
        arrays = {name: self._returned(name, received.values[name]) for name in self.problem.outputs}
        unknown = self._unknown(contract, given, received)
        answers = self.again(arrays, unknown).check(contract, arrays)
        failing = {each.output: replace(each, again=True) for each in answers if each.result != "pass"}
        return tuple(failing.get(each.output, each) for each in checks)

    def _unknown(self, contract: Contract, given: Mapping[str, Enclosure], received: Received) -> Mapping[str, Mask]:
        """Return masks of the outputs from which nothing follows, in the shape of the outputs. They are set where a
        value may be too large for its dtype, so that any value may be stored; where a cast may have flushed a value to
        zero; and everywhere if the dtype lacks numbers of the op's own dtype. They are not set near a jump of the
        formula: any value is right there, but a kernel uses the value that it stores."""
        contract = self.op.settled(contract)
        masks = {}
        with np.errstate(all="ignore"):
            for name, each in given.items():
                mask = self._flushed(contract, name, each, received.values[name]) | self._is_narrower(name)
                loose = [found for found in (each.unjudged, each.infinities) if found is not None]
                if loose:
                    read = self.op.conformance(contract, self.problem.structured, self.op.tensors)
                    lost = read.wild(name) | self._lost(name, each)
                    mask = mask | np.logical_or.reduce([found != 0 for found in loose]) & lost
                if mask.any():
                    masks[name] = self._returned(name, mask).astype(bool)
        return masks

    def _is_narrower(self, output: str) -> bool:
        """Whether the dtype of an output lacks numbers of the dtype that the op declares."""
        own, stored = (
            FORMATS.get(dtype) for dtype in (self.op.of_op.operand(output).dtype, self.problem.outputs[output])
        )
        return own is not None and stored is not None and not stored.holds(own)

    def _flushed(self, contract: Contract, output: str, enclosure: Enclosure, got: NDArray[Any]) -> Mask:
        """Return where the cast to the output's dtype may have flushed a subnormal value to zero."""
        dtype, size = FORMATS.get(self.problem.outputs[output]), np.abs(head(enclosure.centre))
        if dtype is None or not contract.flushes_results:
            return np.zeros(size.shape, bool)
        return np.asarray((got == 0) & (size > 0) & (size < dtype.tiny))

    def _lost(self, output: str, enclosure: Enclosure) -> Mask:
        """Return where the exact value lies outside the range of an output's integer dtype."""
        dtype, values = DTYPES[self.problem.outputs[output]], head(enclosure.centre)
        if not isinstance(dtype, Integer):
            return np.zeros(values.shape, bool)
        return (values < dtype.lowest) | (values > dtype.highest)

    def again(self, returned: Mapping[str, NDArray[Any]], unknown: Mapping[str, Mask] = MappingProxyType({})) -> Truth:
        """Return the truth about outputs that are calculated from other outputs as they were returned, for an op with
        `from_returned`. `unknown` are masks of the returned elements from which nothing follows."""
        op, of = self.op.of_op.from_returned, self.problem
        assert op is not None, "an op without outputs that follow from others"
        inputs = {**of.inputs, **returned}
        again = Problem(
            op.name, {name: value for name, value in of.params.items() if name in op.params},
            {each.name: inputs[each.name] for each in op.inputs if each.name in inputs},
            {each.name: of.outputs[each.name] for each in op.outputs if each.name in of.outputs}, of.structured, op,
        )  # fmt: skip
        return Truth(again, confirms=self.confirms, unknown=unknown)

    def _returned(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return an output in the shape and dtype that a kernel returns, from values in canonical shape."""
        found = np.empty(self.op.shape(name), stored_as(self.problem.outputs[name]))
        found.reshape(-1)[self.places(name).reshape(-1)] = values.reshape(-1)
        return found

    def explain(self, contract: Contract, output: str, index: tuple[int, ...], got: float | None = None) -> Breakdown:
        """Return the full explanation of the judgement of one element, from the precise tier. `index` is an index into
        the output as returned, `got` a value of its dtype; None explains the budget of the expected value. Raises
        `GaveUp` if the precise tier reaches no decision, `ProblemError` for an unknown output or index."""
        from oracles.breakdown import breakdown

        place, structured = self.canonical_index(output, index), self.problem.structured
        bounds = self.bounds(contract, output, place, structured, once=True)
        if bounds is None:
            raise GaveUp(f"{output}{list(index)}: not stable up to {MOST} bits")
        with mpmath.workprec(2 * START), np.errstate(all="ignore"):
            terms = self.elements.terms(output, place, contract, structured)
            facts = self.elements.facts(output, place, contract, structured)
            given = self.elements.given(output, place, contract, structured)
            return breakdown(output, index, bounds, None if got is None else float(got), terms, facts, given)

    def explain_roughly(self, contract: Contract, output: str, index: tuple[int, ...], got: float) -> Breakdown:
        """Return the explanation of the judgement of one element from the fast tier, without the terms of the budget.
        Raises `GaveUp` if the fast tier has no finite interval."""
        from oracles.breakdown import breakdown

        place = self.canonical_index(output, index)
        each = self.enclosures(contract, self.problem.structured, once=True)[output]
        centre, below, above = (float(part[place]) for part in (head(each.centre), each.below, each.above))
        if not math.isfinite(centre + below + above):
            raise GaveUp(f"{output}{list(index)}: known to the precise tier alone")
        nan = FORBIDDEN if each.nan is None else int(each.nan[place])
        ends = mpmath.mpf(centre) - below, mpmath.mpf(centre) + above
        integer = isinstance(DTYPES[self.problem.outputs[output]], Integer)
        bounds = Bounds(each.form, mpmath.mpf(centre), *ends, nan, integer=integer)
        return breakdown(output, index, bounds, got, (), (), ())

    def ulps_off(self, contract: Contract, output: str, index: tuple[int, ...], got: float | np.floating[Any]) -> float:
        """Return the error of a value in units in the last place of the expected value, or in units of 1 for integers;
        NaN for a place. The expected value comes from the fast tier, in float64 or double-double, since the precise
        tier takes seconds for an element of a long row."""
        enclosure = self.enclosures(contract, self.problem.structured)[output]
        if enclosure.places:
            return math.nan
        centre, place = enclosure.centre, self.canonical_index(output, index)
        high = float(head(centre)[place])
        off = float(got) - high - (float(centre.low[place]) if isinstance(centre, DoubleDouble) else 0.0)
        form = FORMATS.get(self.problem.outputs[output])
        return off if form is None else off / (max(math.ldexp(0.5, math.frexp(high)[1]), form.tiny) * 2 * form.u)

    def enclosures(self, contract: Contract, structured: bool, *, once: bool = False) -> Mapping[str, Enclosure]:
        """Return the fast tier's conformance set of each output, by name. With `once`, the exact value, rounded once to
        the output's dtype, conforms too."""
        key = contract, structured, once
        if key not in self._enclosures:
            known = self.enclosures(contract, structured) if once else None
            if not self.keeps:
                self._enclosures.clear()
            # NaN, inf, overflow and division by zero are ordinary values here.
            with np.errstate(all="ignore"):
                if known is None:
                    found = self.op.enclose(contract, structured)
                else:
                    found = self.op.once(contract, structured, known)
            for name, mask in self._unjudged.items():
                own = found[name].unjudged
                found = {**found, name: replace(found[name], unjudged=mask if own is None else mask | own)}
            self._enclosures[key] = found
        return self._enclosures[key]

    def decided(self, contract: Contract) -> Mapping[str, bool]:
        """Return, for each output that has elements, whether the contract forbids some number at some element."""
        enclosures = self.enclosures(contract, self.problem.structured).items()
        dtypes = {name: DTYPES[dtype] for name, dtype in self.problem.outputs.items()}
        return {name: not each.anything(dtypes[name]).all() for name, each in enclosures if each.below.size}

    def bounds(
        self, contract: Contract, output: str, index: tuple[int, ...], structured: bool, *, once: bool = False
    ) -> Bounds | None:
        """Return the precise tier's conformance set of the element at a canonical index, or None if it gives up; for
        `once` see `enclosures`."""
        if output in self._unjudged and self._unjudged[output][index]:
            return unjudged_in(judged(self.problem.outputs[output]))
        key = contract, output, index, structured, once
        if key not in self._bounds:
            if len(self._bounds) >= _KEEP_BOUNDS:
                self._bounds.clear()
            with np.errstate(all="ignore"):
                self._bounds[key] = stable(lambda: self.elements.bounds(output, index, contract, structured, once=once))
        return self._bounds[key]

    def canonical_index(self, output: str, index: tuple[int, ...]) -> tuple[int, ...]:
        """Return the index into the canonical array, from one into the output as returned. Raises `ProblemError`."""
        if output not in self.problem.outputs:
            raise ProblemError(f"outputs.{output}: not an output; there are {', '.join(self.problem.outputs)}")
        shape = self.op.shape(output)
        if len(index) != len(shape) or not all(0 <= i < extent for i, extent in zip(index, shape, strict=True)):
            raise ProblemError(f"outputs.{output}: no element {index} in shape {shape}")
        places = self.places(output)
        flat = int(np.ravel_multi_index(index, shape)) if shape else 0
        found = np.flatnonzero(places.reshape(-1) == flat)[0]
        return tuple(int(i) for i in np.unravel_index(found, places.shape))

    def places(self, output: str) -> NDArray[np.int64]:
        """Return, for each element of the output's canonical array, its flat index in the output as returned."""
        shape = self.op.shape(output)
        return self.op.arranged(output, np.arange(int(np.prod(shape))).reshape(shape))

    def _canonical(self, name: str, outputs: Mapping[str, NDArray[Any]]) -> F64:
        if name not in outputs:
            raise ProblemError(f"outputs.{name}: not among the outputs given")
        array, shape = outputs[name], self.op.shape(name)
        if array.shape != shape:
            raise ProblemError(f"outputs.{name}: shape {array.shape}, expected {shape}")
        if array.dtype != stored_as(self.problem.outputs[name]):
            raise ProblemError(f"outputs.{name}: dtype {array.dtype}, expected {self.problem.outputs[name]}")
        with np.errstate(invalid="ignore"):  # elements that were never written may be NaN
            return self.op.arranged(name, array).astype(np.float64)

    def _check(self, name: str, contract: Contract, received: Received, worst: Worst | None) -> OutputCheck:
        """Return the judgement of one output. `worst` is its worst element if a screen decided that it passes."""
        got = received.values[name]
        if got.size == 0:
            return OutputCheck(name, "pass", None, 0.0)
        confirms = (self.problem.lot ^ lots((name,), contract)[0]) % self._one_in[name] == 0
        is_large = worst is None and not (self.keeps or self._unjudged or confirms)
        if is_large and len(self.op.formulas(self.op.settled(contract))) > 1:
            # Each algorithm takes seconds, and what one of them allows is right.
            with np.errstate(all="ignore"):
                first = self.op.first(contract, self.problem.structured, name)
            worst = worst_pass(first, got) if passes(first, got) else None
        if worst is None:
            enclosure = self.enclosures(contract, self.problem.structured)[name]
            if passes(enclosure, got):
                worst = worst_pass(enclosure, got)
            else:
                comparison = compare(enclosure, got)
                if comparison.failing.any() or comparison.unsure.any():
                    return self._check_closely(name, contract, got)
                worst = worst_of(comparison.ratio, enclosure, got)
        if confirms:
            self._confirm_pass(name, contract, worst, got)
        return self._passed(name, worst)

    def settled(self, query: Query, worst: Answer) -> OutputCheck | OracleDisagreement | None:
        """Return the result of `settle` for one query. `worst` are the worst elements of all outputs if these certainly
        pass, else None."""
        contract, received = query
        if worst is None or self._leaves_open(contract):
            self._screened.add(query)
            return None
        decisive, of_decisive = "", worst[0]
        drawn = zip(self._one_in.items(), lots(self._outputs, contract), worst, strict=True)
        for (name, one_in), lot, each in drawn:
            if (self.problem.lot ^ lot) % one_in == 0:
                try:
                    self._confirm_pass(name, contract, each, received.values[name])
                except OracleDisagreement as error:
                    return error
            if not decisive or each.ratio > of_decisive.ratio:
                decisive, of_decisive = name, each
        return self._passed(decisive, of_decisive)

    @lazy
    def _outputs(self) -> tuple[str, ...]:
        return tuple(self.problem.outputs)

    @lazy
    def _one_in(self) -> Mapping[str, int]:
        """Return, by output, the number of passes of which the precise tier confirms one."""
        return {name: SAMPLE + self.op.cost(name) for name in self.problem.outputs}

    def _confirm_pass(self, name: str, contract: Contract, worst: Worst, got: F64) -> None:
        index = index_of(worst.flat, got.shape)
        bounds = self._confirm(name, contract, index, float(got[index]), passing=True)
        if bounds is not None:
            # A right verdict may come from wrong numbers, so that the numbers are compared too.
            why = self.elements.contradiction(name, index, contract, self.problem.structured, worst, bounds)
            if why:
                at = f"{self.problem.op} {self.problem.digest[:16]}, {contract}, {name}{list(index)}"
                raise OracleDisagreement(f"{at}: {why}")

    def _passed(self, name: str, worst: Worst) -> OutputCheck:
        key = name, worst.flat, worst.ratio, worst.blunt
        if (known := self._passes.get(key)) is None:
            place = self.op.place(name, worst.flat)
            known = self._passes[key] = OutputCheck(name, "pass", place, worst.ratio, blunt=worst.blunt)
        return known

    def _check_closely(self, name: str, contract: Contract, got: F64) -> OutputCheck:
        """Return the judgement of an output that does not certainly pass; the precise tier decides unsure elements."""
        enclosure = self.enclosures(contract, self.problem.structured, once=True)[name]
        comparison, structured, began = compare(enclosure, got), self.problem.structured, time.process_time()
        if not enclosure.places:
            decided = partial(self.elements.decided, name, got=got, contract=contract, structured=structured)
            comparison = narrowed(comparison, got, decided, began)
        failing, ratio, gave_up, late = settled(
            comparison, got, lambda index: self.bounds(contract, name, index, structured, once=True),
            PreciseProgress(self.problem.op, name, 0, int(comparison.unsure.sum())), began,
        )  # fmt: skip
        flat = int(ratio.argmax())
        index = index_of(flat, got.shape)
        escalated = int(comparison.unsure.sum())
        worst = self.op.place(name, flat)
        if not failing.any():
            result: Result = "gave_up" if gave_up or late else "pass"
            blunt = is_blunt(enclosure, got, flat)
            return OutputCheck(
                name, result, worst, float(ratio.flat[flat]), escalated=escalated, late=late, blunt=blunt
            )
        value, contradicts = float(got[index]), False
        if comparison.repeated is not None and comparison.repeated[index]:
            contradicts = True  # a place that occurs twice, which no contract allows
        elif self.confirms:
            with suppress(LateError), deadline(time.process_time() + _CONFIRM_S, break_off):
                if self._confirm(name, contract, index, value, passing=False) is None:
                    return OutputCheck(name, "gave_up", worst, float(ratio.flat[flat]), escalated=escalated)
                certain = self.bounds(contract, name, index, True, once=True)
                contradicts = certain is not None and not conforms(certain, value)
        result = "nonfinite" if not np.isfinite(value) or np.isnan(head(enclosure.centre)[index]) else "numeric"
        mask = np.zeros(int(np.prod(self.op.shape(name))), bool)
        mask[self.places(name)[failing]] = True
        mask = mask.reshape(self.op.shape(name))
        return OutputCheck(
            name, result, worst, float(ratio.flat[flat]), int(failing.sum()), contradicts, escalated, mask=mask
        )

    def _confirm(
        self, name: str, contract: Contract, index: tuple[int, ...], got: float, passing: bool
    ) -> Bounds | None:
        """Return the precise tier's bounds of one element that the fast tier decided; None if it gives up. Raises
        OracleDisagreement if the tiers contradict each other."""
        structured = self.problem.structured
        bounds = self.bounds(contract, name, index, structured, once=not passing)
        if passing and bounds is not None and not conforms(bounds, got):
            bounds = self.bounds(contract, name, index, structured, once=True)
        if bounds is not None and conforms(bounds, got) != passing:
            raise OracleDisagreement(
                f"{self.problem.op} {self.problem.digest[:16]}, {contract}, {name}{list(index)} = {got!r}: "
                f"{'passes' if passing else 'fails'} in the fast tier, conformance set {bounds.decision}"
            )
        return bounds


def settle(asked: Sequence[tuple[Truth, Sequence[Query]]]) -> list[list[OutputCheck | OracleDisagreement | None]]:
    """Return the judgements of outputs of many problems at once; only what certainly passes is judged. A query's result
    is the `Truth.check` of the output with the largest err/budget, or the error that `check` would raise; None leaves
    the query open, so that `Truth.check` must be called."""
    small = [(truth.op, truth.problem.structured, queries if truth.keeps else ()) for truth, queries in asked]
    return [
        list(map(truth.settled, queries, known)) if truth.keeps else [None] * len(queries)
        for (truth, queries), known in zip(asked, _certain(small), strict=True)
    ]


def _certain(asked: Sequence[Asked]) -> list[list[Answer]]:
    """Return the answers of screens, and for the queries that they leave open the answers of joined enclosures."""
    found = screen.certain(asked)
    missing = [[at for at, answer in enumerate(each) if answer is None] for each in found]
    others = [
        (op, structured, [queries[at] for at in places])
        for (op, structured, queries), places in zip(asked, missing, strict=True)
    ]
    for each, places, answers in zip(found, missing, joined.certain(others), strict=True):
        for at, answer in zip(places, answers, strict=True):
            each[at] = answer
    return found
